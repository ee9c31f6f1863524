"""What datasets of scenes, drawn from handwritten digits, share."""
