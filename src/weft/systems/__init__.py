"""Research systems: each a composition of the catalog, and what it alone needs. Importing this package registers them."""
