"""Why a run failed: what of it runs that passed do not have."""
