"""Pure: records to JSON, text, HTML and Prometheus."""
