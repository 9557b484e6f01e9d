"""Events to a legal order: regions, granules, filters, the SMT engine, the certificate, the checker."""
