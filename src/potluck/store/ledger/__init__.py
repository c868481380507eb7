"""The ledger: movements of credit, statements and earnings."""
