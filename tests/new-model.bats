#!/usr/bin/env bats
load helper

# In a copy of the sources: a new model is its file and a word in MODELS, as CONTRIBUTING.md says; and trainsim
# simulates with the rules that decide in a job.

@test "the smallest model of CONTRIBUTING.md compiles, and there is a place for its name" {
	${CC:-cc} -std=c17 -D_GNU_SOURCE -I"$PACELINE_ROOT/lib" -Wall -Wextra -Werror -fsyntax-only "$PACELINE_ROOT/tests/lmf.c"
	[ "$(grep -c 'FIRST(lr)' "$PACELINE_ROOT/lib/model/model.h")" -eq 1 ]
}

# bats test_tags=long
@test "logistic matrix factorisation: its file and a word, and all know it" {
	local built=${PACELINE_BIN:-$PACELINE_ROOT/build/bin}
	mkdir -p tree/tests
	cp -a "$PACELINE_ROOT"/{lib,cmd,Makefile} tree
	cp -a "$PACELINE_ROOT/tests/unit" tree/tests
	cp -a "${built%/bin}" tree/build # what does not look at models is not compiled again
	cp "$PACELINE_ROOT/tests/lmf.c" tree/lib/model
	sed -i 's/FIRST(lr)/& MORE(lmf)/' tree/lib/model/model.h
	make -C tree -j2 OPT=-O0 BUILD=build programs build/unit/model_gradient >make.out 2>&1 || { tail make.out; false; }
	tree/build/unit/model_gradient
	# Who likes what is no sum of a user's part and an item's: lr can't learn it.
	for part in train test; do
		awk -v seed=$part 'BEGIN { print "liked,user,item"; srand(seed == "test")
			for (i = 0; i < (seed == "test" ? 500 : 4000); i++) {
				u = int(20 * rand()); v = int(30 * rand()); print (u + v) % 2 "," u "," v } }' >$part.csv
	done
	printf '%s\n' JOB=j DATA=train.csv TEST=test.csv LABEL=liked SPARSE=user,item MODEL=lmf,embed:4 WORKERS=2 \
		EPOCHS=10 BATCH=100 >job.env
	PATH=$PWD/tree/build/bin:$PATH trainctl run job.env --run-dir run 3>&-
	awk -v a="$(field auc <run/state/summary)" 'BEGIN { exit !(a > 0.95) }'
	checkpoint=$(ckpt latest run/state/checkpoints)
	grep -q ' name=lmf .* embed=4$' "$checkpoint/model"
	[ "$(tree/build/bin/predict -c "$checkpoint" test.csv | auc | field auc)" = "$(field auc <run/state/summary)" ]
	# As with any model of the kit.
	run -78 tree/build/bin/trainctl run job.env --run-dir other --set SPARSE=user
	[[ "$output" == *"lmf needs two sparse columns, not 1"* ]]
	run -78 trainctl run job.env --run-dir other
	[[ "$output" == *"'lmf'"* ]]
}

# decided LOG: the sizes that were set, and the samples of an iteration, where there are most
decided() {
	plrec where type=action kind=adjust-bs <"$1" | plrec tsv id size
	plrec where type=row <"$1" | plrec tsv iteration samples-done | awk '
		$1 >= i + 16 { if (($2 - n) / ($1 - i) > most) most = ($2 - n) / ($1 - i); i = $1; n = $2 }
		END { print (most > 55 ? "all wait for all" : "nobody waits") }'
}

@test "a rule of a solution and one of the lead are changed: a job follows, and trainsim" {
	local built=${PACELINE_BIN:-$PACELINE_ROOT/build/bin} bin
	mkdir -p tree/build/bin
	cp -a "$PACELINE_ROOT"/{lib,cmd,Makefile} tree
	cp -a "${built%/bin}"/{lib,cmd,sources} tree/build
	cp -as "$built"/* tree/build/bin
	rm tree/build/bin/{trainctl,ps-server,trainsim}
	# even: w1 gets 22 samples more than w0. The lead: an iteration is over with its first push.
	sed -i 's/batch_even(w, c->count, global.*/& w[0].size -= 11, w[1].size += 11;/' tree/lib/solve/rule_simple.c
	sed -i 's/return g->active > g->backup ? .*/return 1;/' tree/lib/lead/gate_units.c
	make -C tree OPT=-O0 BUILD=build build/bin/{trainctl,ps-server,trainsim} >make.out 2>&1 || { tail make.out; false; }
	job SOLUTION=even,every:3600 SYNC=bsp EPOCHS=10 MONITOR=report:1
	slow 20000
	trainctl check job.env --cluster --run-dir none >c
	echo 'cost sample=0.001' >>c
	for bin in "$built" "$PWD/tree/build/bin"; do
		rm -rf run
		PATH=$bin:$PATH trainctl run job.env --run-dir run 3>&-
		"$bin/trainsim" <c >simulated
		decided run/state/job.log >real
		decided simulated | diff real -
		cat real >>both
	done
	printf '%s\n' 'all wait for all' $'w0\t21' $'w1\t43' 'nobody waits' | diff - both
}
