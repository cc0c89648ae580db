"""The seven layouts, each read natively; files are never converted (C-11.5)."""
