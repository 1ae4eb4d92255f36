# make check: what a change must pass · make test: its tests alone · make night: everything · make docs: the site
.PHONY: check test night docs
check:
	bash .ci/run
test:
	OMP_NUM_THREADS=1 python -m pytest -q -n logical --dist loadfile -m "not slow and not night"
night:
	bash .ci/night
docs:
	NO_MKDOCS_2_WARNING=true mkdocs build --strict --site-dir "$$(mktemp -d)"
