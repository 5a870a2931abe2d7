"""What a round of Flower costs beyond training: ten nodes, the cnn's arrays, clients that do no work."""
