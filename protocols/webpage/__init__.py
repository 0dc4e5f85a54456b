"""Web pages as content: bytes to text, hostile HTML to a clean tree, a tree to Markdown, and what a page says of itself."""
