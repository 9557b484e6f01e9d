# make demo, test, lint, soak, bench, wheel: each sets itself up first. Needed: Python 3.11 or later, and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/installed

.PHONY: demo test lint warm checked soak bench wheel clean
.DELETE_ON_ERROR:

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "corebraid needs Python 3.11 or later, $(PYTHON) is older or missing: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "setting up $(VENV) (once)" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=compat --editable '.[dev]'
	@touch $@

demo: $(READY)
	@rm -rf demo
	@mkdir demo
	$(BIN)/corebraid record -o demo/uts --cores 4 --strata cycles:10000 firmware/x86_64/uts.elf < /dev/null
	@echo
	$(BIN)/corebraid replay demo/uts --core 2
	@echo
	$(BIN)/corebraid order demo/uts
	@echo
	@echo "# The braided trace where the four cores meet, at their barrier and at the count of idle cores:"
	$(BIN)/corebraid trace demo/uts --ordered --addr all_cores --kind W,RMW --limit 12
	$(BIN)/corebraid trace demo/uts --ordered --addr idle_cores --kind W,RMW --limit 8
	@echo
	@echo
	@sh firmware/linux/demo.sh $(BIN)/corebraid demo
	@echo
	@echo "demo/uts               the recording; demo/uts/order.cert is the order that was found"
	@echo "firmware/src/uts.c     the program, built as firmware/x86_64/uts.elf"
	@echo "$(BIN)/corebraid    the command: try '$(BIN)/corebraid trace demo/uts --ordered | less -S',"
	@echo "                       '$(BIN)/corebraid verify demo/uts', '$(BIN)/corebraid --help'"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The short run compiles the kernels into their cache, which the test processes then share.
warm: $(READY)
	@rm -rf build/warm && mkdir -p build
	@$(BIN)/corebraid record -o build/warm --cores 2 firmware/x86_64/fig1.elf < /dev/null
	@$(BIN)/corebraid order build/warm > /dev/null
	@$(BIN)/corebraid verify build/warm > /dev/null

# With CHECKED_APART, not the tests that `checked` has.
CHECKED_APART :=
# Each process begins with a half of the tests: two that run the same tests compile the same kernels. Processes
# that have compiled much are some gigabytes large, and hunts fork theirs thousands of times: those begin anew.
LATE := tests/project tests/corebraid
FORKING := $(wildcard tests/corebraid/test_exhaustive*.py tests/corebraid/study/test_exhaustive*.py) \
  tests/corebraid/test_hunt_cli.py tests/corebraid/test_forked_runs.py tests/corebraid/study/test_runs_again.py tests/corebraid/study/smallest \
  tests/corebraid/study/causes tests/corebraid/study/covering tests/corebraid/study/test_before_calls.py tests/corebraid/study/test_own_handlers.py tests/corebraid/study/test_timeouts.py
test: $(READY)
	@$(MAKE) --no-print-directory -j2 -O lint warm
	$(BIN)/python -m pytest -n 2 --dist worksteal \
	  $(patsubst %,--ignore %,$(LATE) $(if $(CHECKED_APART),$(CHECKED)))
	$(BIN)/python -m pytest -n 2 --dist worksteal $(FORKING)
	$(BIN)/python -m pytest -n 2 --dist worksteal $(patsubst %,--ignore %,$(FORKING)) $(LATE)

# With its kernels, so that whoever installs it does not wait for them.
wheel: $(READY)
	$(BIN)/python -m release.wheel

# Some of it with every array index checked: out-of-bounds stores are silent otherwise. The code compiled so is
# kept apart. Whole recordings, replays and orders so take minutes of compilation more: `make soak`.
CHECKED := tests/recorder/test_format_codec.py tests/solver/test_solver_kernels.py tests/recorder/test_linkage_record.py \
  tests/recorder/test_opr_kernels.py tests/emu/test_rpc_mailbox.py tests/recorder/test_slices_collector.py
checked: $(READY)
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR="$(CURDIR)/.numba_cache/boundscheck" $(BIN)/python -m pytest $(CHECKED) $(ALSO)

soak: $(READY)
	$(BIN)/python bench/soak.py
	$(BIN)/python bench/order_soak.py
	$(BIN)/python -m pytest -m soak
	@$(MAKE) --no-print-directory checked ALSO=tests/corebraid/cli/test_cli_path.py
	for kind in mutations commands bombs kills resources instructions; do $(BIN)/python -m bench.hostile $$kind || exit 1; done

bench: $(READY)
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) build demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .numba_cache
