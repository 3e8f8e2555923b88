# Tally: build, test, and everything else a contributor runs. `make help` lists the targets.
#
# VARIANT=release|asan|tsan|ndebug chooses the build; each has its own folder under build/.
# Sources are found by folder: a new .c file in a layer is built, a new tests/test_*.c is run.

VARIANT ?= release
B       := build/$(VARIANT)

WARN    := -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wmissing-prototypes -Wconversion -Wno-sign-conversion -Werror
# No -ffast-math anywhere (it breaks NaN checks). Contraction is off: an FMA happens only where one is written.
FP      := -ffp-contract=off -fno-math-errno -fno-trapping-math
CFLAGS  ?= -O2 -g
LIBS    := -ljansson -lzip -lpcre2-8 -lutf8proc -lm -ldl -lpthread
OMP     := -fopenmp
EXTRA   :=
# Flags of single files, below. Not CFLAGS: one given on the command line would replace them.
TARGET  :=

ifeq ($(VARIANT),asan)
  EXTRA := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O1
else ifeq ($(VARIANT),ndebug)
  EXTRA := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -DNDEBUG
else ifeq ($(VARIANT),tsan)
  CC    := clang
  EXTRA := -fsanitize=thread -fno-omit-frame-pointer -O1
else ifeq ($(VARIANT),clang)
  CC    := clang
else ifeq ($(VARIANT),fuzz)
  CC    := clang
  EXTRA := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O1
endif

ALL_CFLAGS = -std=c11 -D_GNU_SOURCE -I. -I$(B) $(WARN) $(FP) $(CFLAGS) $(TARGET) $(OMP) $(EXTRA) -MMD -MP

LAYERS   := kernels weights tokenizer engine
LIB_SRC  := $(sort $(foreach d,$(LAYERS),$(wildcard $(d)/*.c)))
TOOL_SRC := $(sort $(wildcard tools/*.c))
TEST_SRC := $(sort $(wildcard tests/test_*.c))
HELP_SRC := $(filter-out $(TEST_SRC) $(wildcard tests/fuzz_*.c),$(wildcard tests/*.c))
LAYOUTS  := $(sort $(wildcard weights/layouts/*.json))
PRESETS  := $(sort $(wildcard tools/presets/*.json))

LIB_OBJ  := $(LIB_SRC:%.c=$(B)/%.o) $(B)/weights/layouts_data.o
TOOL_OBJ := $(TOOL_SRC:%.c=$(B)/%.o) $(B)/tools/presets_data.o
HELP_OBJ := $(HELP_SRC:%.c=$(B)/%.o)
TESTS    := $(TEST_SRC:tests/%.c=$(B)/tests/%)

.PHONY: all help deps demo test check-asan check-tsan check-ndebug check-clang fuzz fuzz-run bench audit format lint layers families install clean
.DELETE_ON_ERROR:
.SECONDARY:

all: $(B)/tally ## build tally and libtally.a

help: ## list the targets
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

deps: ## install what building and testing need (says what first; silent when nothing is missing)
	@./tools/deps.sh

$(B)/libtally.a: $(LIB_OBJ)
	@rm -f $@; $(AR) rcs $@ $^

# The tools but for main, so that tests can call them.
$(B)/tools.a: $(filter-out $(B)/tools/main.o,$(TOOL_OBJ))
	@rm -f $@; $(AR) rcs $@ $^

$(B)/tally: $(TOOL_OBJ) $(B)/libtally.a
	@echo "  $(@F)"; $(CC) $(ALL_CFLAGS) -o $@ $(TOOL_OBJ) $(B)/libtally.a $(LIBS)

# Instruction sets are chosen when the program starts; each file is compiled for its own.
# -O3 for kernels: their loops are written for the vectoriser, in an order that it may not change.
$(B)/kernels/%.o: TARGET += -O3
ifneq (,$(findstring x86_64,$(shell $(CC) -dumpmachine)))
$(B)/kernels/%_avx2.o: TARGET += -mavx2 -mfma -mf16c
$(B)/kernels/%_avx512.o: TARGET += -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c -mprefer-vector-width=512
$(B)/kernels/%_amx.o: TARGET += -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c -mprefer-vector-width=512 -mamx-tile -mamx-int8
endif

ifeq ($(VARIANT),fuzz) # no fuzzer calls these, and instrumenting them takes minutes
$(B)/kernels/kernels_%.o: EXTRA :=
endif

$(B)/%.o: %.c | deps
	@mkdir -p $(@D)
	@echo "  $(@F)"; $(CC) $(ALL_CFLAGS) -c -o $@ $<

# JSON files of a folder, embedded: an array of { name, text }.
$(B)/weights/layouts_data.c: tools/embed.sh $(LAYOUTS)
	@mkdir -p $(@D)
	@./tools/embed.sh layout_files $(LAYOUTS) > $@
$(B)/tools/presets_data.c: tools/embed.sh $(PRESETS)
	@mkdir -p $(@D)
	@./tools/embed.sh preset_files $(PRESETS) > $@
$(B)/%_data.o: $(B)/%_data.c | deps
	@echo "  $(@F)"; $(CC) $(ALL_CFLAGS) -c -o $@ $<

$(B)/tests/%: $(B)/tests/%.o $(HELP_OBJ) $(B)/tools.a $(B)/libtally.a
	@echo "  $(@F)"; $(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka $(LIBS)
# Calls of attention() go to the test's own, deliberately wasteful ones.
$(B)/tests/test_broken_kernels: LDFLAGS += -Wl,--wrap=attention

demo: all ## run the shipped level-21 checkpoint and print what the answer cost
	@./tools/demo.sh $(B)/tally

bench: all ## speed on random models of two shapes, in every storage (BENCH="..." in place of the arguments)
	@./tools/bench/bench.sh $(B)/tally

test: layers all $(TESTS) $(B)/audit_run $(B)/audit_trace ## every test: units, goldens, invariances, counts, hostile files, the command line
	@./tests/run.sh $(B)

check-asan: ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(MAKE) VARIANT=asan test
check-ndebug: ## the same with -DNDEBUG
	$(MAKE) VARIANT=ndebug test
check-tsan: ## the tests under ThreadSanitizer (clang, libomp-14-dev)
	TSAN_OPTIONS=ignore_noninstrumented_modules=1 OMP_TOOL_LIBRARIES=/usr/lib/llvm-14/lib/libarcher.so $(MAKE) VARIANT=tsan test
check-clang: ## the tests built with clang
	$(MAKE) VARIANT=clang test

# Every tests/fuzz_NAME.c, from the seeds in tests/seeds/NAME; what it finds stays in build/fuzz. A finding becomes a seed.
FUZZ_SECONDS ?= 60
FUZZERS := $(patsubst tests/%.c,%,$(sort $(wildcard tests/fuzz_*.c)))
fuzz: ## libFuzzer on every reader of untrusted bytes, FUZZ_SECONDS=60 each (clang)
	@./tools/deps.sh clang
	$(MAKE) VARIANT=fuzz fuzz-run
fuzz-run: $(FUZZERS:%=$(B)/tests/%)
	@for f in $(FUZZERS); do \
	    mkdir -p $(B)/corpus/$$f tests/seeds/$${f#fuzz_} || exit 1; \
	    echo "$$f"; $(B)/tests/$$f -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=200 -max_len=65536 \
	        -artifact_prefix=$(B)/$$f- -print_final_stats=1 -verbosity=0 $(B)/corpus/$$f tests/seeds/$${f#fuzz_} || exit 1; done
$(B)/tests/fuzz_%: $(B)/tests/fuzz_%.o $(B)/tests/made_files.o $(B)/tests/tokens.o $(B)/libtally.a
	@echo "  $(@F)"; $(CC) $(ALL_CFLAGS) -fsanitize=fuzzer -o $@ $^ -lcmocka $(LIBS)

# Small programs that outside tools watch; calls of forward() and attention() set marks on their way (tools/audit/marks.h).
$(B)/audit_run: $(B)/tools/audit/audit_run.o $(B)/libtally.a
	@echo "  $(@F)"; $(CC) $(ALL_CFLAGS) -Wl,--wrap=forward,--wrap=attention -o $@ $^ $(LIBS)
$(B)/audit_trace: $(B)/tools/audit/audit_trace.o $(B)/libtally.a
	@echo "  $(@F)"; $(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

audit: $(B)/audit_run $(B)/audit_trace ## bytes proved by valgrind: writes docs/audit.md (installs valgrind; some minutes)
	@./tools/deps.sh valgrind
	@./tools/audit/audit.sh $(B) docs/audit.md

layers: ## the include rule: kernels <- weights, tokenizer <- engine <- tools
	@./tests/layers.sh

lint: layers ## formatting, static analysis
	@./tools/lint.sh

format: ## clang-format over every source
	clang-format -i $$(git ls-files '*.c' '*.h')

families: all ## docs/families.md from the layouts
	$(B)/tally inspect --families > docs/families.md

PREFIX ?= /usr/local
install: all ## copy tally, libtally.a and tally.h under PREFIX
	install -D $(B)/tally $(DESTDIR)$(PREFIX)/bin/tally
	install -D -m 644 $(B)/libtally.a $(DESTDIR)$(PREFIX)/lib/libtally.a
	install -D -m 644 engine/tally.h $(DESTDIR)$(PREFIX)/include/tally.h

clean: ## remove build/
	rm -rf build

-include $(shell find $(B) -name '*.d' 2>/dev/null)
