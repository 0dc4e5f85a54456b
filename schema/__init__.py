"""What is stored: row types, migrations, and queries as plain functions that take a connection."""
