"""The admission guard, pure: what a final Pod must look like, and whether a Job or a Pod may be.

``final`` says what an API server makes of a Job's template, ``review`` judges one request. Facts
and sources: docs/admission.md.
"""
