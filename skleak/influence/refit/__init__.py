"""Minimizers had a record been different, without refitting."""

from skleak.influence.refit._candidates import candidate_encodings as candidate_encodings
from skleak.influence.refit._candidates import operations_each as operations_each
from skleak.influence.refit._candidates import target_encodings as target_encodings
from skleak.influence.refit._changes import SINGULAR as SINGULAR
from skleak.influence.refit._changes import Change as Change
from skleak.influence.refit._chord import Move as Move
from skleak.influence.refit._chord import OneStep as OneStep
from skleak.influence.refit._chord import check_reached as check_reached
from skleak.influence.refit._chord import contraction_form as contraction_form
from skleak.influence.refit._chord import factor_rounding as factor_rounding
from skleak.influence.refit._chord import largest_leverage as largest_leverage
from skleak.influence.refit._chord import second_order as second_order
from skleak.influence.refit._chord import third_derivatives as third_derivatives
from skleak.influence.refit._chord import way_left as way_left
from skleak.influence.refit._chord import whitened as whitened
from skleak.influence.refit._distances import TableMaxima as TableMaxima
from skleak.influence.refit._distances import candidate_shapes as candidate_shapes
from skleak.influence.refit._distances import distance_brackets as distance_brackets
from skleak.influence.refit._distances import largest_distances as largest_distances
from skleak.influence.refit._distances import loss_brackets as loss_brackets
