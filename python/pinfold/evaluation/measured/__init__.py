"""The section on tables that others have measured on real machines."""
