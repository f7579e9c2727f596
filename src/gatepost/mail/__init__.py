"""Reading mail: any bytes become a frozen `Message`. `reader.read` is the way in; `message` holds the values."""
