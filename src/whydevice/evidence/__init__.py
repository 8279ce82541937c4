"""Reads the live frames of an exception and says what was on which device, and where it came from."""
