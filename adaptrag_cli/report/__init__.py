"""What runs of `adaptrag eval` show: figures as data, as a page, and in the terminal."""
