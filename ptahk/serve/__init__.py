"""The manager: one elected reconciler among replicas, and what every replica serves (C-13)."""
