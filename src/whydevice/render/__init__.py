"""From an Explanation to text, terminal, HTML and JSON. `layout` makes one tree, which all but JSON share."""
