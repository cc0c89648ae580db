"""What engine and executor must agree on, byte for byte. Pure; nothing here connects or reads."""
