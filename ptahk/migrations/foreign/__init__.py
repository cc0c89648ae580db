"""The histories of other tools: which table is whose, what its rows say, a baseline of them."""
