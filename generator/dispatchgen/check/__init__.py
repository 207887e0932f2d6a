"""What there is against what there should be: nothing here writes."""
