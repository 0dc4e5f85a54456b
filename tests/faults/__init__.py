"""Real supervisors on a real database, hurt in every way, and a checker that looks at what came of the jobs."""
