"""What the audit says of small inputs, each rebuilt from a report or a fault, in every shape in which people have them."""
