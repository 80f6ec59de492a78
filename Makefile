# Paceline. `make`, `make check`, `make check-fast`, `make check-all`, `make install PREFIX= DESTDIR=`,
# `make uninstall`, `make dist`, `make deb`, `make fault`, `make bench`, `make evaluation`, `make gpu`,
# `make asan`, `make clang`, `make clang-asan`, `make fuzz`, `make units`, `make clean`.
# BUILD names the build directory, so that several compilers live side by side:
#   make CC=clang BUILD=build-clang check

VERSION  := $(shell sed -n 's/^\#define PACELINE_VERSION "\(.*\)"/\1/p' lib/base/version.h)
PREFIX    = /usr/local
DESTDIR   =
BUILD     = build
CC        = cc
ARCH      = -march=native
OPT       = -O3 $(ARCH) -fno-math-errno -fno-trapping-math
SANITIZE  =
,         := ,
NUMBERS   =
BUSY      = base fabric model monitor param partition plan predict record solve
# What was compiled before is not compiled again, for who has set ccache up.
CCACHE    := $(if $(wildcard $(HOME)/.ccache/ccache.conf),$(shell command -v ccache))
# What makes a mistake in memory harder to use; no bench shows what it costs. A package has flags of its own.
HARDEN    = -fPIE -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
HARDEN_LD = -pie -Wl,-z,relro,-z,now
WARN      = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-psabi
CPPFLAGS  = -Ilib -I. -D_GNU_SOURCE
CFLAGS    = -std=c17 -g $(OPT) $(WARN) $(SANITIZE) $(HARDEN) $(EXTRA_CFLAGS) -pthread
LDFLAGS   = $(SANITIZE) $(HARDEN_LD) $(EXTRA_LDFLAGS) -pthread

# ---- what is built: the files of the folders. A new file, program or test is named in no list. ----
# Where there is no Open MPI (MPI= says so, too), fabricd and its room are left out, and nothing else.
MPI       := $(shell pkg-config --exists ompi-c 2>/dev/null && echo yes)
ifeq ($(MPI),yes)
MPI_FLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags-only-I ompi-c))
MPI_LIBS  := $(shell pkg-config --libs ompi-c)
LEFT_OUT   =
else
LEFT_OUT   = fabricd fuzz_targets $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/fabric_*.c))
endif

# Where there is an nvcc (NVCC= says that there is none), the models' plug-in for cards of NVIDIA is built,
# for all that it knows (a card takes the code of an older one of its generation). A build under a sanitizer has none.
NVCC      := $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
CUDA_ARCH  = all-major
CUDA       = $(sort $(wildcard lib/model/cuda/*.cu))
CUDA_ALL   = $(CUDA) $(wildcard lib/model/cuda/*.h lib/model/*.h) lib/base/error.h
PLUGIN     = $(if $(NVCC),$(if $(SANITIZE),,$(BUILD)/cuda/model-cuda.so))
# Tests compile it for a CPU, with a C++ compiler of the same kind as CC.
ifeq ($(origin CXX),default)
CXX       := $(if $(findstring clang,$(CC)),clang++,g++)
endif
NO_CXX    := $(if $(shell command -v $(CXX)),,model_backend)
LEFT_OUT  += $(NO_CXX)

# All rooms of lib/ go into one archive; the linker takes from it what a program calls, and of the
# libraries those that are needed then. Which room may know which is said in CONTRIBUTING.md, and
# checked there (`pages:` in tests/run).
PROGRAMS = $(filter-out $(LEFT_OUT),$(patsubst cmd/%.c,%,$(wildcard cmd/*.c)))
LIBS     = -Wl,--as-needed -levent -lcsv -lz -lzstd -lxxhash -lopenblas -ljansson -lncursesw $(MPI_LIBS) -lm
UNITS    = $(filter-out $(LEFT_OUT),$(patsubst tests/unit/%.c,%,$(wildcard tests/unit/*.c)))
BATS     = $(patsubst tests/%.bats,%,$(shell ls -S tests/*.bats))
# check runs the short forms of FAULTS, check-all of both, `make fault` and `make bench` all of them.
FAULTS   = $(notdir $(filter-out %.bash %.c %.h %.py,$(wildcard tests/fault/*)))
BENCHES  = $(notdir $(filter-out %.bash %.c %.cu %.h %.awk %.py,$(wildcard tests/bench/*)))

# Tests and benches compute with what od and bash write, which is 0,5 in some languages; they are in
# bash's own language.
export LC_ALL = C
unexport POSIXLY_CORRECT

# ---- check: which build runs what ----
# Units run under clang's sanitizers, in check-fast as users compile them. Conversations run with the programs
# as users have them, and those that start few of them (PROGRAM) under clang's sanitizers instead where what they
# are about has changed (tests/changed): whole jobs (JOBS) start programs by the thousand, and a start takes ten
# times as long there. PLAIN is about files, variables, memory, the sources and the tests, not what programs do. Crash tests
# and benches always run the programs as users have them. check-all runs everything, with all three builds.
PLAIN      = install run surroundings resources new-model
JOBS       = allreduce brain cards deaths decisions delay guilty healing hosts hosts-check hosts-jobs \
	     init jobs lda man many-hosts metrics move partitions python readme rebalance report restarts scale scale-hosts \
	     standby-hosts state terminal trainctl trainers trainers-hosts
MOSTLY     = $(filter-out $(PLAIN),$(BATS))
PROGRAM    = $(filter-out $(JOBS),$(MOSTLY))
# What takes long comes first (crash tests, which mostly wait; ls -S of conversations), so that nothing is left over
# that runs alone.
CRASHES    = $(FAULTS:%=short:tests/fault/%)
MODELS     = short:tests/model/run
CHECK_FAST = $(BATS:%=bats:%) $(CRASHES) pages: $(UNITS:%=unit:%)
# The other builds are made beside the tests; the conversations of a build begin when it is there.
CHANGED    = $(shell tests/changed $(PROGRAM) model)
CHECK      = make:clang-asan $(CRASHES) $(patsubst %,bats:%,$(filter $(JOBS),$(BATS))) $(patsubst %,clang-asan/bats:%,$(filter-out model,$(1))) \
	     $(patsubst %,bats:%,$(PLAIN) $(filter-out $(1),$(PROGRAM))) $(if $(filter model,$(1)),$(MODELS)) \
	     pages: $(UNITS:%=clang-asan/unit:%)
CHECK_ALL  = make:asan make:clang-asan $(MOSTLY:%=asan/bats:%) $(MOSTLY:%=clang-asan/bats:%) \
	     $(CHECK_FAST) $(MODELS) short:tests/evaluation/run short:tests/surroundings $(BENCHES:%=short:tests/bench/%) \
	     $(UNITS:%=asan/unit:%) $(UNITS:%=clang-asan/unit:%)

# ---------------------------------------------------------------------------------------------
all: programs $(PLUGIN)
programs: $(PROGRAMS:%=$(BUILD)/bin/%)

ARCHIVE = $(BUILD)/lib/paceline.a
OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(if $(MPI),,lib/fabric/%),$(wildcard lib/*/*.c)))
SOURCES_OF = $(wildcard cmd/$(1).c cmd/$(1)/*.c)

# The names of all sources, written only when they are others: a file that is gone makes no object
# newer, and would stay in the archive and in the programs.
SOURCES = $(sort $(wildcard lib/*/*.c cmd/*.c cmd/*/*.c)) MPI=$(MPI)
$(BUILD)/sources: FORCE
	@mkdir -p $(@D)
	@echo $(SOURCES) | cmp -s - $@ || echo $(SOURCES) >$@

# q, not r: two rooms may each have a file of the same name.
$(ARCHIVE): $(OBJECTS) $(BUILD)/sources Makefile
	@mkdir -p $(@D)
	@rm -f $@
	@echo ar qcs $@
	@ar qcs $@ $(OBJECTS)

# A program is cmd/NAME.c and, where it has subcommands, cmd/NAME/*.c.
define PROGRAM_rules
$(BUILD)/bin/$(1): $(patsubst %.c,$(BUILD)/%.o,$(call SOURCES_OF,$(1))) $(ARCHIVE)
	@mkdir -p $$(@D)
	$$(CC) $$(LDFLAGS) -o $$@ $$^ $$(LIBS)
endef
$(foreach program,$(PROGRAMS),$(eval $(call PROGRAM_rules,$(program))))

$(BUILD)/unit/%: $(BUILD)/tests/unit/%.o $(ARCHIVE)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) -lcmocka $(LIBS)

$(foreach room,$(BUSY),$(BUILD)/lib/$(room)/%.o $(BUILD)/tests/unit/$(room)_%.o): CFLAGS += $(NUMBERS)
$(BUILD)/lib/fabric/%.o: CPPFLAGS += $(MPI_FLAGS)
$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CCACHE) $(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# The sources of the plug-in are one unit: an nvcc that starts once takes a fifth of the time.
$(BUILD)/cuda/all.cu: $(CUDA) Makefile
	@mkdir -p $(@D)
	@printf '#include "%s"\n' $(CUDA) >$@
$(BUILD)/cuda/model-cuda.so: $(BUILD)/cuda/all.cu $(CUDA_ALL)
	@mkdir -p $(@D)
	$(NVCC) -std=c++20 -O3 -arch=$(CUDA_ARCH) --threads 2 -cudart static -shared -Ilib -I. \
		-Xcompiler -fPIC,-fvisibility=hidden -Xlinker --exclude-libs=ALL -o $@ $< -ldl
# What is loaded by a program in C has no more of clang's sanitizers than that.
$(BUILD)/cudacpu/model-cuda.so: $(BUILD)/cuda/all.cu $(CUDA_ALL) $(wildcard tests/cudacpu/*.h)
	@mkdir -p $(@D)
	$(CXX) -std=c++20 -g -O1 -Wall -Wextra $(SANITIZE) \
		$(if $(findstring clang,$(CXX)),-fno-sanitize=vptr -fno-sanitize=function) -shared -fPIC -fvisibility=hidden \
		-Itests/cudacpu -Ilib -I. -o $@ -x c++ $<
$(BUILD)/unit/model_backend: $(BUILD)/cudacpu/model-cuda.so
STAND_IN = $(if $(NO_CXX),,$(BUILD)/cudacpu/model-cuda.so)

-include $(shell find $(BUILD) -path $(BUILD)/deb -prune -o -name '*.d' -type f -print 2>/dev/null)

units: $(UNITS:%=$(BUILD)/unit/%)

# Few wait for these programs: at -O0, with fewer symbols and linked by lld, they are built in less than half
# the time. But BUSY rooms and their unit tests, which compute for minutes, are compiled at -O2.
UNDER = NUMBERS=-O2 HARDEN= HARDEN_LD= OPT='-O0 -g1 $(ARCH) -fno-omit-frame-pointer' \
	SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=undefined' \
	EXTRA_LDFLAGS='$(if $(shell command -v ld.lld),-fuse-ld=lld) $(EXTRA_LDFLAGS)'
asan:
	$(MAKE) $(UNDER) BUILD=$(BUILD)-asan all units

clang:
	$(MAKE) BUILD=$(BUILD)-clang CC=clang all units

# clang's sanitizers see what gcc's do not (a pointer formed outside of its array). Check makes this build: so
# here its warnings are errors.
clang-asan:
	$(MAKE) $(UNDER) EXTRA_CFLAGS='$(EXTRA_CFLAGS) -Werror' BUILD=$(BUILD)-clang-asan CC=clang all units

# Parsers under a fuzzer: tests/fuzz, tests/fault/fuzz. All checksums fit, where a target says so.
FUZZ_TARGETS = $(BUILD)/tests/fuzz/targets.o $(BUILD)/tests/fuzz/daemons.o $(BUILD)/tests/fuzz/clients.o
WRAP = -Wl,--wrap=XXH3_64bits,--wrap=XXH3_64bits_withSeed,--wrap=XXH3_64bits_digest,--wrap=fstatvfs,--wrap=connect,--wrap=fork_start,--wrap=clock_sleep
# FAST: without sanitizers, and comparisons are not told to the fuzzer. Inputs that the other build finds are its corpus, too.
FUZZ_AS = $(if $(COVER),-cover,$(if $(FAST),-fast))
FUZZ_SANITIZE = $(if $(FAST),-fsanitize-coverage=inline-8bit-counters$(,)pc-table,-fsanitize=fuzzer-no-link \
	$(or $(COVER),-fsanitize=address$(,)undefined -fno-sanitize-recover=undefined))
fuzz:
	$(MAKE) NUMBERS= OPT='-O$(if $(FAST),2,1) -g1 $(ARCH) -fno-omit-frame-pointer' $(if $(FAST),HARDEN= HARDEN_LD=) \
		SANITIZE='$(FUZZ_SANITIZE)' EXTRA_CFLAGS=-Itests/fuzz/xxhash \
		BUILD=$(BUILD)-fuzz$(FUZZ_AS) CC='$(or $(FUZZ_CC),clang)' $(BUILD)-fuzz$(FUZZ_AS)/fuzz/fuzz
$(BUILD)/fuzz/fuzz: $(BUILD)/tests/fuzz/fuzz.o $(FUZZ_TARGETS) $(ARCHIVE)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -fsanitize=fuzzer $(WRAP) -o $@ $^ $(LIBS)
$(BUILD)/unit/fuzz_targets: LDFLAGS += $(WRAP)
$(BUILD)/unit/fuzz_targets: $(FUZZ_TARGETS)

# Tests take the programs only: the plug-in needs half a minute, and tests/fault/kernels compiles it for one card.
check: programs $(STAND_IN)
	@tests/run $(BUILD) $(call CHECK,$(CHANGED))

# Everything once with this build only: the loop of a developer.
check-fast: programs units
	tests/run $(BUILD) $(CHECK_FAST)

check-all: programs units
	PACELINE_ALL=1 tests/run $(BUILD) $(CHECK_ALL)

fault: programs
	@failed=0; for test in $(FAULTS:%=fault/%) model/run; do \
		PACELINE_BIN=$$PWD/$(BUILD)/bin tests/tried tests/$$test || [ $$? = 77 ] || failed=1; done; exit $$failed

bench: programs
	@missed=0; for bench in $(BENCHES); do \
		PACELINE_BIN=$$PWD/$(BUILD)/bin tests/bench/$$bench || [ $$? = 77 ] || missed=1; done; exit $$missed

# The papers' figures, simulated: fills the tables of a page, and draws a picture of each paper's.
evaluation: programs
	PACELINE_BIN=$$PWD/$(BUILD)/bin tests/evaluation/run >$(BUILD)/evaluation
	tests/tables $(BUILD)/evaluation doc/evaluation.md >$(BUILD)/evaluation.md
	cp $(BUILD)/evaluation.md doc/evaluation.md
	for paper in AntDT LB-BSP DLRover MLfabric; do \
		tests/evaluation/picture -v paper=$$paper $(BUILD)/evaluation >doc/evaluation-$$paper.svg; done

# What a card computes, and how fast; elsewhere it says that it did not run.
gpu:
	@tests/fault/kernels --card || [ $$? = 77 ]
	@tests/bench/card || [ $$? = 77 ]

# ---- what a user has of it ----

# What TAB offers comes from the programs' own --help, which comes from their tables of options.
completion: $(BUILD)/completion/paceline $(BUILD)/completion/_paceline
$(BUILD)/completion/%: scripts/completion/%.in scripts/completion/tables $(PROGRAMS:%=$(BUILD)/bin/%)
	@mkdir -p $(@D)
	scripts/completion/tables $(BUILD)/bin $< >$@.new
	@mv $@.new $@

export PREFIX DESTDIR
install: all completion
	@scripts/install $(BUILD)
uninstall:
	@scripts/install --remove

# The sources as one file: of the last commit, or where there is no git, as they lie there. The same
# sources give the same file, bit by bit.
dist:
	@scripts/dist $(BUILD) $(VERSION)

# A Debian package from that file, for any processor of this kind (not just this machine's).
deb: dist
	@scripts/deb $(BUILD) $(VERSION)

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-clang $(BUILD)-clang-asan $(BUILD)-fuzz $(BUILD)-fuzz-cover $(BUILD)-fuzz-fast

.PHONY: all programs units asan clang clang-asan fuzz check check-fast check-all fault bench evaluation gpu completion install uninstall \
	dist deb clean FORCE
.SECONDARY:
