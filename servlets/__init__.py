"""HTTP: Flask blueprints for image transfer and status, and the server that runs them."""
