/*
 * A server and its standby (lib/ps/standby.h) as a Spin model: two workers, a lead (with shardd), a
 * part and its standbys under BSP.  The part dies up to DEATHS times, at any step; it may lose its
 * standby at any step, and this one may then be stopped and not know it.  What is unread on a
 * connection that closes is lost, what was answered is not.
 *
 *     spin -search -O2 standby.pml              no error
 *     spin -DDEATHS=2 -search -O2 standby.pml   the standby dies, too, after it has taken over
 *     spin -DFAULT=1 -search -O2 standby.pml    1 to 6: each must find one (tests/model/run)
 *     spin -DFAR -search -O2 standby.pml        on another host: no lock, and the standby may not know
 *                                               that the part goes on without it (FAULT 2, 3, 4, 5 and 7)
 *
 * Checked: each unit is applied once, in order, with the parts of both workers staged, wherever the
 * part is; the lead never finds a server that lacks what it was told to have applied; no worker that
 * was told that its push is staged is fenced for a death; a death with a standby in force is no
 * rollback.  A death without one ends the search of that path.  So does, with FAR, the takeover by a
 * standby without which the part went on: the lead sees what it lacks, or the standby itself does.
 */
#ifndef N
#define N 2 /* units */
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef FAULT
#define FAULT 0
#endif
/* FAULT 1: a standby takes over without looking whether it is named; 2: the part answers before its
 * standby has; 3: a standby is in force before it has answered what came during the copy; 4: what is
 * staged is not in the copy; 5: an apply said twice is applied twice; 6: what waits for a standby
 * that is lost is answered before the name is removed; 7: the lead does not look at what a server
 * lacks that took over. */
#ifdef FAR
#define IS_FAR 1
#else
#define IS_FAR 0
#endif
#define LIVES (DEATHS + 2)

mtype = { stage, hold, apply, ok, missing, again, closed };
chan W[2] = [1] of { mtype, byte };       /* worker and part: a request, or its answer */
chan L = [2] of { mtype, byte };          /* lead to part, */
chan K = [4] of { mtype };                /* and its answers */
chan R = [10] of { mtype, byte, byte };    /* part to standby: the same again, */
chan A = [10] of { bit };                  /* and its answers */

byte wk[2], ws[2];                        /* workers: unit, step */
byte it, last, ta, lp[2]; bool th, up, cut;
                                          /* lead: units; the apply and the hold not answered */
byte prim, lives, deaths; bool dead, over;
byte pit[LIVES], stg[2 * LIVES];
byte sb, named, lost, un; bool force, ending; /* the standby + 1; who is in the lock; one that was lost */
byte said; bool stale; /* FAR: who was told that it is in force; who took over was lost before */
byte ow[2], oa, oh;                       /* answers that wait, for how many others, + 1 */
hidden byte tw, tk;
hidden mtype tm;

proctype Worker(byte w) {
	do
	:: d_step { ws[w] == 0 && empty(W[w]) -> W[w]!stage, wk[w]; ws[w] = 1 }
	:: d_step { ws[w] == 1 && W[w]?[ok, _] -> W[w]?ok, _; ws[w] = 2; lp[w] = wk[w] + 1 }
	:: d_step { ws[w] == 1 && W[w]?[again, _] -> W[w]?again, _; ws[w] = 0 }
	:: d_step { ws[w] == 2 && it > wk[w] -> wk[w] = it; ws[w] = (it == N -> 4 : 0) }
	:: ws[w] == 4 || over -> break
	od
}

proctype Lead() {
end:	do
	:: d_step { !th && it < N && lp[0] == it + 1 && lp[1] == it + 1 ->
		th = 1; if :: up && !cut -> L!hold, it :: else fi }
	:: d_step { K?[ok] -> K?ok;
		if
		:: ta -> ta = 0                        /* answers come in order */
		:: else -> assert(th); th = 0; last++; it++; ta = it;
			if :: up && !cut -> L!apply, it - 1 :: else fi
		fi }
	:: d_step { K?[missing] -> K?missing; assert(stale); over = 1 }
	:: d_step { K?[closed] -> K?closed; up = 0 }
	:: d_step { !up && !dead && !over && empty(K) ->
		if
		:: pit[prim] <= it && pit[prim] >= (ta -> ta - 1 : it)
		:: else -> assert(stale); if :: FAULT == 7 :: else -> over = 1 fi
		fi;
		up = 1; cut = 0;
		if :: ta -> L!apply, ta - 1 :: else fi;
		if :: th -> L!hold, it :: else fi }
	od
}

#define repeat(m, x, y) if :: sb -> R!m, x, y; un++ :: else fi
#define waits (sb && force && un && FAULT != 2)

inline do_stage(i, w, k) { if :: k == pit[i] -> stg[2 * i + w] = k + 1 :: else fi }
inline do_apply(i, k) {
	if
	:: k < pit[i] && FAULT != 5
	:: k == pit[i] && stale && (stg[2 * i] != k + 1 || stg[2 * i + 1] != k + 1) ->
		over = 1 /* it ends: it lacks a push */
	:: else ->
		assert(k == pit[i] && stg[2 * i] == k + 1 && stg[2 * i + 1] == k + 1 && last > k);
		pit[i]++; stg[2 * i] = 0; stg[2 * i + 1] = 0
	fi
}

inline answer() {
	if :: ow[0] == 1 -> ow[0] = 0; W[0]!ok, 0 :: else fi;
	if :: ow[1] == 1 -> ow[1] = 0; W[1]!ok, 0 :: else fi;
	if :: oa == 1 -> oa = 0; K!ok :: else fi;
	if :: oh == 1 -> oh = 0; K!ok :: else fi
}

inline count_down() {
	if :: ow[0] > 1 -> ow[0]-- :: else fi; if :: ow[1] > 1 -> ow[1]-- :: else fi;
	if :: oa > 1 -> oa-- :: else fi; if :: oh > 1 -> oh-- :: else fi;
	answer()
}

inline release() {
	if :: ow[0] -> ow[0] = 1 :: else fi; if :: ow[1] -> ow[1] = 1 :: else fi;
	if :: oa -> oa = 1 :: else fi; if :: oh -> oh = 1 :: else fi;
	answer()
}

inline forget() { /* what is on the way to a standby, and back */
	do :: nempty(R) -> R?_, _, _ :: empty(R) -> break od;
	do :: nempty(A) -> A?_ :: empty(A) -> break od;
	un = 0
}

#define alive (!dead && !over)
#define takes(w) d_step { alive && W[w]?[stage, _] && pit[prim] >= wk[w] ->	\
		W[w]?stage, tk; do_stage(prim, w, tk); repeat(stage, w, tk);	\
		if :: waits -> ow[w] = un + 1 :: else -> W[w]!ok, 0 fi }

proctype Part() {
end:	do
	:: takes(0)
	:: takes(1)
	:: d_step { alive && L?[hold, _] -> L?hold, tk;
		if
		:: stg[2 * prim] == tk + 1 && stg[2 * prim + 1] == tk + 1 ->
			repeat(hold, 0, tk);
			if :: waits -> oh = un + 1 :: else -> K!ok fi
		:: else -> K!missing
		fi }
	:: d_step { alive && L?[apply, _] -> L?apply, tk; do_apply(prim, tk); repeat(apply, 0, tk);
		if :: waits -> oa = un + 1 :: else -> K!ok fi }
	:: d_step { alive && nempty(A) -> A?_; un--; count_down() }
	:: d_step { alive && sb && !force && !ending && (un == 0 || FAULT == 3) ->
		force = 1; named = sb }
	:: d_step { IS_FAR && alive && force && said != sb -> said = sb }
	/* a standby comes: a copy of what is here */
	:: d_step { alive && !sb && lives < LIVES - 1 && !(IS_FAR && lost) -> lives++; sb = lives + 1;
		pit[lives] = pit[prim];
		stg[2 * lives] = (FAULT == 4 -> 0 : stg[2 * prim]);
		stg[2 * lives + 1] = stg[2 * prim + 1] }
	/* it is lost */
	:: d_step { alive && sb && !ending && !lost -> lost = sb;
		if :: FAULT == 6 -> ending = 1; force = 0; forget(); release()
		:: else -> named = 0; sb = 0; force = 0; forget(); release() fi }
	:: d_step { alive && ending -> ending = 0; named = 0; sb = 0 }
	od
}

proctype Standby() {
end:	do
	:: d_step { !over && sb && nempty(R) -> R?tm, tw, tk;
		if
		:: tm == stage -> do_stage((sb - 1), tw, tk)
		:: tm == hold -> assert(stg[2 * (sb - 1)] == tk + 1 && stg[2 * (sb - 1) + 1] == tk + 1)
		:: tm == apply -> do_apply((sb - 1), tk)
		fi;
		if :: !dead -> A!1 :: else fi }
	/* the lock is free; or, FAR, it is told that the part is dead */
	:: d_step { dead && sb && (IS_FAR -> said : named) == sb -> prim = sb - 1; dead = 0;
		sb = 0; named = 0; force = 0; ending = 0; forget() }
	:: d_step { dead && lost && FAULT == 1 -> prim = lost - 1; dead = 0; lost = 0;
		sb = 0; named = 0; force = 0; forget() }
	:: d_step { IS_FAR && dead && lost && said == lost -> prim = lost - 1; dead = 0; stale = 1;
		lost = 0; forget() }
	:: d_step { IS_FAR && !dead && lost && lost != prim + 1 -> lost = 0 } /* it finds the part alive */
	:: d_step { dead && !over && named == 0 && !(IS_FAR && lost && said == lost) -> assert(!force);
		over = 1 }
	:: d_step { IS_FAR && dead && !over && sb && said != sb -> over = 1 } /* the word was not there */
	od
}

/* The client asks again, unless an answer is on its way to it. */
inline lose(c, reading) {
	if
	:: c?[stage, _] -> c?stage, _; c!again, 0
	:: empty(c) && reading -> c!again, 0
	:: empty(c) && !reading -> skip
	:: c?[ok, _] -> skip
	:: c?[again, _] -> skip
	fi
}

proctype Death() {
	do
	:: d_step { !dead && deaths < DEATHS -> dead = 1; deaths++;
		lose(W[0], ow[0]); lose(W[1], ow[1]); ow[0] = 0; ow[1] = 0; oa = 0; oh = 0;
		do :: nempty(L) -> L?_, _ :: empty(L) -> break od;
		if :: up && !cut -> K!closed; cut = 1 :: else fi }
	:: deaths == DEATHS || over -> break
	:: it == N && pit[prim] == N -> break
	od
}

proctype Check() {
	over || (ws[0] == 4 && ws[1] == 4 && !dead && pit[prim] == N); /* or this never ends */
	assert(over || (it == N && last == N))
}

init { atomic {
	up = 1;
	run Worker(0); run Worker(1); run Lead(); run Part(); run Standby(); run Death(); run Check()
} }
