"""Makes the JSON in evaluation/ and the pages in docs/evaluation/: one module for each subject."""
