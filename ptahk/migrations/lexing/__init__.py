"""One lexer per kind of engine splits every layout (C-11.10)."""
