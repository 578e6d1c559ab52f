"""The steps from one schema to the next, carried out by alembic."""
