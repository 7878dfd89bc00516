"""Makes docs/evaluation.md and the JSON beside it: one module for each subject."""
