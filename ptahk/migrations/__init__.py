"""Migration directories: layouts, splitting, sums, rules. Pure; commands and executor share it."""
