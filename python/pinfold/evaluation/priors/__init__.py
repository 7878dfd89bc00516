"""The belief that ships: programs that a generator makes, swept on varied machines, and what their belief is worth."""
