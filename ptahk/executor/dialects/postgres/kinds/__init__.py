"""Every kind of object that the planner claims, in the order in which equals are created."""
