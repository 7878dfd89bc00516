"""Beliefs about configurations: learned from programs, updated by trials (docs/design/learning.md)."""
