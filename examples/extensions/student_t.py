"""Student's t with four degrees of freedom: a likelihood of numbers with outliers, made of torch's distribution."""

from torch.distributions import StudentT

from horoball.likelihoods import from_torch

from_torch("student_t", StudentT, df=4.0)
