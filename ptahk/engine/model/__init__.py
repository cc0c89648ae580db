"""Frozen values in field terms. No behaviour beyond their invariants and their JSON form."""
