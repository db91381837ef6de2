"""Importing this module fills the lowering table: one import for each family of ops."""

from triptych_inductor.lowering import activations as activations
from triptych_inductor.lowering import batch_norm as batch_norm
from triptych_inductor.lowering import creation as creation
from triptych_inductor.lowering import externs as externs
from triptych_inductor.lowering import indexing as indexing
from triptych_inductor.lowering import mutation as mutation
from triptych_inductor.lowering import norms as norms
from triptych_inductor.lowering import packed as packed
from triptych_inductor.lowering import pointwise as pointwise
from triptych_inductor.lowering import pooling as pooling
from triptych_inductor.lowering import products as products
from triptych_inductor.lowering import random as random
from triptych_inductor.lowering import reductions as reductions
from triptych_inductor.lowering import scans as scans
from triptych_inductor.lowering import shapes as shapes
from triptych_inductor.lowering.registry import LOWERINGS as LOWERINGS
