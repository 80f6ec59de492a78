# Paceline. `make`, `make check`, `make check-fast`, `make install PREFIX= DESTDIR=`, `make fault`,
# `make bench`, `make asan`, `make clang`, `make clang-asan`, `make units`, `make clean`.
# BUILD names the build directory, so that several compilers live side by side:
#   make CC=clang BUILD=build-clang check

VERSION   = 0.1.0
PREFIX    = /usr/local
DESTDIR   =
BUILD     = build
CC        = cc
ARCH      = -march=native
OPT       = -O3 $(ARCH) -fno-math-errno -fno-trapping-math
SANITIZE  =
WARN      = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-psabi
CPPFLAGS  = -Ilib -I. -D_GNU_SOURCE
CFLAGS    = -std=c17 -g $(OPT) $(WARN) $(SANITIZE) -pthread
LDFLAGS   = $(SANITIZE) -pthread

# ---- rooms: each is the files of its folder in lib/; a program names the rooms it is made of ----
ROOMS     = base wire data shard stats solve ckpt model work opt ps gate run straggle

# Tests and benches compute with what od and bash write, which is 0,5 in some languages; they are in
# bash's own language.
export LC_ALL = C
unexport POSIXLY_CORRECT

# ---- programs: rooms in link order (a room before those it knows), then libraries ----
PROGRAMS = bs-solve speed-predict rowidx bpt-monitor ckpt auc rec trainctl shardd predict ps-server worker straggle

ROOMS_shardd      = shard wire base
ROOMS_bpt-monitor = stats wire base
ROOMS_speed-predict = stats wire base
ROOMS_bs-solve    = solve stats wire base
ROOMS_trainctl    = run data model ckpt solve stats wire base
ROOMS_ps-server   = gate ps solve stats opt ckpt wire base
ROOMS_worker      = work stats model data ckpt wire base
ROOMS_ckpt        = run ckpt wire base
ROOMS_rowidx      = data wire base
ROOMS_rec         = wire base
ROOMS_predict     = model data ckpt wire base
ROOMS_auc         = wire base
ROOMS_straggle    = straggle run wire base

# A program whose subcommands are files of their own: cmd/NAME/*.c besides cmd/NAME.c.
MORE_trainctl = trainctl/ask trainctl/balances trainctl/report trainctl/run trainctl/solve trainctl/top
MORE_bs-solve = bs-solve/plan bs-solve/step
MORE_speed-predict = speed-predict/file speed-predict/table
MORE_rec = rec/json rec/lines rec/records rec/tsv
MORE_straggle = straggle/files straggle/guard straggle/nodes straggle/processes

LIBS_shardd      = -levent -lxxhash -lm
LIBS_bpt-monitor = -levent -lm
LIBS_speed-predict = -lxxhash -lm
LIBS_bs-solve    = -lm
LIBS_trainctl    = -Wl,--as-needed -levent -lcsv -lz -lxxhash -lopenblas -ljansson -lm
LIBS_ps-server   = -levent -lz -lxxhash -ljansson -lm
LIBS_worker      = -lcsv -lz -lxxhash -lopenblas -ljansson -lm
LIBS_ckpt        = -lz -lxxhash -ljansson -lm
LIBS_rowidx      = -lcsv -lz -lxxhash -lm
LIBS_rec         = -ljansson -lm
LIBS_predict     = -lcsv -lz -lxxhash -lopenblas -ljansson -lm
LIBS_auc         = -lm
LIBS_straggle    = -lm

# ---- unit tests: tests/unit/NAME.c, with the rooms it links ----
UNITS = $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/*.c))
ROOMS_unit_model_gradient = model ckpt wire base
LIBS_unit_model_gradient  = -lopenblas
ROOMS_unit_model_spec     = model ckpt wire base
LIBS_unit_model_spec      = -lopenblas
ROOMS_unit_model_kernel    = model wire base
LIBS_unit_model_kernel     = -lxxhash -lopenblas
ROOMS_unit_work_batch     = work model data ckpt wire base
LIBS_unit_work_batch      = -lcsv -lz -lxxhash -lopenblas
ROOMS_unit_work_feed      = work model data ckpt wire base
LIBS_unit_work_feed       = -lcsv -lz -lxxhash -lopenblas
ROOMS_unit_work_load      = work wire base
ROOMS_unit_work_profile   = work wire base
ROOMS_unit_shard_journal = shard wire base
ROOMS_unit_shard_parts = shard wire base
LIBS_unit_shard_parts = -lxxhash
LIBS_unit_shard_journal = -lxxhash
ROOMS_unit_opt_steps = opt base
ROOMS_unit_ps_store = ps opt ckpt wire base
LIBS_unit_ps_store  = -levent -lz -lxxhash -ljansson
ROOMS_unit_ps_weights = ps opt model ckpt wire base
LIBS_unit_ps_weights  = -levent -lz -lxxhash -lopenblas -ljansson
ROOMS_unit_ps_stage = ps opt ckpt wire base
LIBS_unit_ps_stage  = -levent -lz -lxxhash -ljansson
ROOMS_unit_ps_shared = ps opt ckpt wire base
LIBS_unit_ps_shared  = -levent -lz -lxxhash -ljansson
ROOMS_unit_gate_rows = gate
ROOMS_unit_gate_save = gate stats wire base
ROOMS_unit_gate_events = gate stats wire base
LIBS_unit_gate_events  = -levent
ROOMS_unit_gate_random = gate stats wire base
LIBS_unit_gate_random  = -levent
ROOMS_unit_run_parent = run wire base
LIBS_unit_run_parent = -levent
ROOMS_unit_data_dataset = data wire base
LIBS_unit_data_dataset = -lcsv -lz -lxxhash
ROOMS_unit_run_job = run solve stats wire base
ROOMS_unit_run_policy = run wire base
ROOMS_unit_run_heavy = run wire base
ROOMS_unit_data_schema = data wire base
LIBS_unit_data_schema = -lcsv -lz -lxxhash
ROOMS_unit_data_index = data wire base
LIBS_unit_data_index = -lcsv -lz -lxxhash
ROOMS_unit_ckpt_layout = ckpt wire base
LIBS_unit_ckpt_layout = -lz -lxxhash -ljansson
ROOMS_unit_ckpt_parts = ckpt wire base
LIBS_unit_ckpt_parts = -lz -lxxhash -ljansson
ROOMS_unit_ckpt_damage = ckpt wire base
LIBS_unit_ckpt_damage = -lz -lxxhash -ljansson
ROOMS_unit_ckpt_list = ckpt wire base
LIBS_unit_ckpt_list = -lz -lxxhash -ljansson
ROOMS_unit_ckpt_export = ckpt wire base
LIBS_unit_ckpt_export = -lz -lxxhash -ljansson
ROOMS_unit_data_rowscan = data wire base
LIBS_unit_data_rowscan = -lcsv -lz -lxxhash
ROOMS_unit_shard_queue = shard wire base
LIBS_unit_shard_queue = -lxxhash
ROOMS_unit_base_fs = base
ROOMS_unit_base_number = base
ROOMS_unit_base_option = base
ROOMS_unit_wire_record = wire base
ROOMS_unit_wire_drag = wire base
ROOMS_unit_straggle_schedule = straggle wire base
ROOMS_unit_wire_peer = wire base
LIBS_unit_wire_peer = -levent
ROOMS_unit_wire_server = wire base
LIBS_unit_wire_server = -levent
ROOMS_unit_solve_batch = solve base
ROOMS_unit_solve_accum = solve base
ROOMS_unit_solve_step = solve base
ROOMS_unit_solve_solution = solve stats wire base
LIBS_unit_solve_solution = -levent
ROOMS_unit_solve_rules = solve stats wire base
LIBS_unit_solve_rules = -levent
ROOMS_unit_solve_course = solve stats wire base
LIBS_unit_solve_course = -levent
ROOMS_unit_stats_monitor = stats wire base
LIBS_unit_stats_monitor = -levent
ROOMS_unit_stats_predict = stats wire base
ROOMS_unit_stats_predict_group = stats wire base
ROOMS_unit_stats_window = stats base
ROOMS_unit_stats_pulse = stats base

# ---- fault tests and benches: check runs their short forms, `make fault` and `make bench` all ----
FAULTS  = $(notdir $(filter-out %.bash %.c,$(wildcard tests/fault/*)))
BENCHES = bs-solve speed-predict lb-replay lb-barrier ps-pushpull shardd-redis worker-torch worker-agent \
	  antdt-stragglers antdt-asp antdt-dd antdt-overhead antdt-restart lb-weights lb-updates \
	  lb-partitions lb-cluster lb-contention

# ---- check: what runs again under the sanitizers and with clang ----
BATS       = $(PROGRAMS) solve partitions state man
CHECK      = pages: $(UNITS:%=unit:%) $(BATS:%=bats:%) bats:surroundings short:tests/surroundings \
	     $(FAULTS:%=short:tests/fault/%) $(BENCHES:%=short:tests/bench/%)
CHECK_ASAN = $(UNITS:%=asan/unit:%) $(BATS:%=asan/bats:%)
CHECK_CLANG = $(UNITS:%=clang/unit:%)
CHECK_CLANG_ASAN = $(UNITS:%=clang-asan/unit:%)

# ---------------------------------------------------------------------------------------------
all: $(PROGRAMS:%=$(BUILD)/bin/%)

define ROOM_rules
OBJ_$(1) = $$(patsubst %.c,$(BUILD)/%.o,$$(wildcard lib/$(1)/*.c))
$(BUILD)/lib/$(1).a: $$(OBJ_$(1)) Makefile
	@mkdir -p $$(@D)
	@rm -f $$@
	ar rcs $$@ $$(OBJ_$(1))
endef
$(foreach room,$(ROOMS),$(eval $(call ROOM_rules,$(room))))

define PROGRAM_rules
$(BUILD)/bin/$(1): $(BUILD)/cmd/$(1).o $$(MORE_$(1):%=$(BUILD)/cmd/%.o) $$(ROOMS_$(1):%=$(BUILD)/lib/%.a)
	@mkdir -p $$(@D)
	$$(CC) $$(LDFLAGS) -o $$@ $(BUILD)/cmd/$(1).o $$(MORE_$(1):%=$(BUILD)/cmd/%.o) $$(ROOMS_$(1):%=$(BUILD)/lib/%.a) $$(LIBS_$(1))
endef
$(foreach program,$(PROGRAMS),$(eval $(call PROGRAM_rules,$(program))))

define UNIT_rules
$(BUILD)/unit/$(1): $(BUILD)/tests/unit/$(1).o $$(ROOMS_unit_$(1):%=$(BUILD)/lib/%.a)
	@mkdir -p $$(@D)
	$$(CC) $$(LDFLAGS) -o $$@ $(BUILD)/tests/unit/$(1).o $$(ROOMS_unit_$(1):%=$(BUILD)/lib/%.a) -lcmocka $$(LIBS_unit_$(1)) -lm
endef
$(foreach unit,$(UNITS),$(eval $(call UNIT_rules,$(unit))))

$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

units: $(UNITS:%=$(BUILD)/unit/%)

asan:
	$(MAKE) BUILD=$(BUILD)-asan OPT='-O1 $(ARCH) -fno-omit-frame-pointer' \
		SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=undefined' all units

clang:
	$(MAKE) BUILD=$(BUILD)-clang CC=clang all units

# clang's sanitizers see what gcc's do not (a pointer formed outside of its array), on the unit tests.
clang-asan:
	$(MAKE) BUILD=$(BUILD)-clang-asan CC=clang OPT='-O1 $(ARCH) -fno-omit-frame-pointer' \
		SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=undefined' units

check: all units asan clang clang-asan
	tests/run $(BUILD) $(CHECK) $(CHECK_CLANG) $(CHECK_CLANG_ASAN) $(CHECK_ASAN)

# Everything once with this build only: the loop of a developer.
check-fast: all units
	tests/run $(BUILD) $(CHECK)

fault: all
	@set -e; for test in $(FAULTS); do PACELINE_BIN=$$PWD/$(BUILD)/bin tests/fault/$$test; done
	tests/model/run || [ $$? = 77 ]

bench: all
	@set -e; for bench in $(BENCHES); do \
		PACELINE_BIN=$$PWD/$(BUILD)/bin tests/bench/$$bench || [ $$? = 77 ]; done

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/doc/paceline \
		$(DESTDIR)$(PREFIX)/share/paceline/examples
	install -m 755 $(PROGRAMS:%=$(BUILD)/bin/%) $(DESTDIR)$(PREFIX)/bin
	for page in man/*.[1-8]; do \
		dir=$(DESTDIR)$(PREFIX)/share/man/man$${page##*.}; \
		install -d $$dir && install -m 644 $$page $$dir; done
	for dir in systemd cron completion; do \
		install -d $(DESTDIR)$(PREFIX)/share/paceline/$$dir && \
		install -m 644 scripts/$$dir/* $(DESTDIR)$(PREFIX)/share/paceline/$$dir; done
	install -m 644 README.md CONTRIBUTING.md LICENSE $(DESTDIR)$(PREFIX)/share/doc/paceline
	cp -r scripts/examples/. $(DESTDIR)$(PREFIX)/share/paceline/examples

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-clang $(BUILD)-clang-asan

.PHONY: all units asan clang clang-asan check check-fast fault bench install clean
.SECONDARY:
