"""A fitted model and data → scores, and what they mean."""
