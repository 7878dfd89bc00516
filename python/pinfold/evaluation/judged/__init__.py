"""The section that judges policies by programs that had no part in any choice."""
