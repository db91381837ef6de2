"""The cache of whole graphs on disk: what a graph is (`text`), under which sizes it holds (`guards`), records of
compiled graphs (`graphs`), and the store seen as a whole (`records`)."""
