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
 *     spin -DBEHIND=1 -DLOSSES=0 -search -O2 standby.pml   the standby may be a unit behind
 *                                               (lib/ps/behind.h): it has the names of pushes, workers
 *                                               keep the gradients (FAULT 8 to 16: 10 and 11 with
 *                                               GONE=1, 13 with DEATHS=2)
 *     ... -DGONE=1                              what a worker keeps is lost, too: its host is
 *
 * Checked: each unit is applied once, in order, with the parts of both workers staged, wherever the
 * part is; the lead never finds a server that lacks what it was told to have applied; no worker that
 * was told that its push is staged is fenced for a death; a death with a standby in force is no
 * rollback.  A death without one ends the search of that path.  So does, with FAR, the takeover by a
 * standby without which the part went on: the lead sees what it lacks, or the standby itself does.
 * With BEHIND, nobody pulls from a part that lacks gradients, and no standby lacks more than the
 * bound.  If what it lacks is nowhere when it takes over, that ends the path, but this may be only
 * if what a worker kept was lost, and the part died before it had made up for that.
 */
#ifndef N
#define N 2 /* units */
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef LOSSES
#define LOSSES 1 /* 0: a standby is lost only when it takes over */
#endif
#ifndef FAULT
#define FAULT 0
#endif
/* FAULT: what is left out or done wrong.
 *  1 a standby takes over without looking whether it is named
 *  2 the part answers before its standby has
 *  3 a standby is in force before it has answered what came during the copy
 *  4 what is staged is not in the copy
 *  5 an apply said twice is applied twice
 *  6 what waits for a standby that is lost is answered before the name is removed
 *  7 the lead does not look at what a server lacks that took over
 *  8 with BEHIND, as those below: workers keep only what the part has not applied
 *  9 a hold does not wait for a difference
 * 10 what a worker kept is lost, and the part does nothing
 * 11 it is lost, and the part does nothing for what is only staged
 * 12 pulls do not wait for gradients
 * 13 the next copy does not wait for them
 * 14 a worker that keeps gradients may leave at once
 * 15 a unit whose gradients are here passes one that lacks some
 * 16 what a part still needs that took over is forgotten with the next push
 */
#ifndef BEHIND
#define BEHIND 0 /* units */
#endif
#ifndef GONE
#define GONE 0 /* workers whose gradients are lost */
#endif
#ifdef FAR
#define IS_FAR 1
#else
#define IS_FAR 0
#endif
#define LIVES (DEATHS + 1 + LOSSES)

mtype = { stage, name, hold, apply, merge, leave, ok, missing, again, closed };
chan W[2] = [1] of { mtype, byte };       /* worker and part: a request, or its answer */
chan L = [2] of { mtype, byte };          /* lead to part, */
chan K = [4] of { mtype };                /* and its answers */
chan R = [14] of { mtype, byte, byte };    /* part to standby: the same again, */
chan A = [14] of { byte };                 /* and its answers */

byte wk[2], ws[2];                        /* workers: unit, step */
byte it, last, ta, lp[2]; bool th, up, cut;
                                          /* lead: units; the apply and the hold not answered */
byte prim, lives, deaths; bool dead, over;
byte pit[LIVES], stg[2 * LIVES];
byte sb, named, lost, un; bool force, ending; /* the standby + 1; who is in the lock; one that was lost */
byte said; bool stale; /* FAR: who was told that it is in force; who took over was lost before */
byte ow[2], oa, oh;                       /* answers that wait, for how many others, + 1 */
/* BEHIND: units in the parameters; pushes (as bits) whose gradients are here, but not in them */
byte rch[LIVES], hv[LIVES];
/* The workers: units whose gradients each keeps; 1: the part knows, 2: they are lost; that loss has
 * not been made up for, or will have with so many answers, + 1 */
byte km[2], kk[2], gone, bw[2]; bool bare[2];
/* The part: pushes of which its standby has the names; the unit that it has reached, and that of the
 * last difference; what the answers in ow[] say */
byte kn, lr, mg, okv[2];
hidden byte tw, tk, tr;
hidden mtype tm;

#define BIT(k, w) (1 << (2 * (k) + (w)))
#define below(k) ((1 << (2 * (k))) - 1)
#define lacks_one(i, w, k) ((k) >= rch[i] && ((k) < pit[i] || stg[2 * (i) + w] == (k) + 1) && \
	!(hv[i] & BIT(k, w)))
#define lacks_of(i, w) (lacks_one(i, w, 0) || lacks_one(i, w, 1) || lacks_one(i, w, 2))
#define lacks(i) (BEHIND && (rch[i] < pit[i] || lacks_of(i, 0) || lacks_of(i, 1)))
#define keeps(w, k) (km[w] >> (k) & 1)
#define gives_one(w, k) (lacks_one(prim, w, k) && keeps(w, k))
#define gives(w) (gives_one(w, 0) || gives_one(w, 1) || gives_one(w, 2))
#define nowhere(w) (rch[prim] < pit[prim] && lacks_one(prim, w, rch[prim]) && !keeps(w, rch[prim]))
#define alive (!dead && !over)

inline run_behind(i) {
	do
	:: rch[i] < pit[i] && hv[i] >> (2 * rch[i]) & 1 && hv[i] >> (2 * rch[i] + 1) & 1 ->
		hv[i] = hv[i] & ~(BIT(rch[i], 0) | BIT(rch[i], 1)); rch[i]++
	:: else -> break
	od
}

proctype Worker(byte w) {
	do
	:: d_step { BEHIND && ws[w] == 0 && empty(W[w]) && alive && pit[prim] >= wk[w] &&
			(rch[prim] == pit[prim] || FAULT == 12) -> assert(rch[prim] >= wk[w]); /* it pulls */
		if :: kk[w] == 1 -> km[w] = km[w] | 1 << wk[w] :: else fi;
		W[w]!stage, wk[w]; ws[w] = 1 }
	:: d_step { ws[w] == 3 && empty(W[w]) -> W[w]!stage, wk[w]; ws[w] = 1 }
	:: d_step { ws[w] == 6 && W[w]?[ok, _] -> W[w]?ok, _; km[w] = 0; ws[w] = 4 }
	:: d_step { ws[w] == 6 && W[w]?[again, _] -> W[w]?again, _; W[w]!leave, 0 }
	:: d_step { gone < GONE && !over && (ws[w] == 0 || ws[w] == 2) -> gone++;
		bare[w] = 1; bw[w] = 0; km[w] = 0; if :: kk[w] == 1 -> kk[w] = 2 :: else fi }
	:: d_step { !BEHIND && ws[w] == 0 && empty(W[w]) -> W[w]!stage, wk[w]; ws[w] = 1 }
	:: d_step { ws[w] == 1 && W[w]?[ok, _] -> W[w]?ok, tr; ws[w] = 2; lp[w] = wk[w] + 1;
		km[w] = km[w] >> tr << tr }
	:: d_step { ws[w] == 1 && W[w]?[again, _] -> W[w]?again, _; ws[w] = (BEHIND -> 3 : 0) }
	:: d_step { ws[w] == 2 && it > wk[w] -> wk[w] = it; ws[w] = (it < N -> 0 : (BEHIND -> 6 : 4));
		if :: ws[w] == 6 -> W[w]!leave, 0 :: else fi }
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

inline do_stage(i, w, k) {
	if :: k == pit[i] -> stg[2 * i + w] = k + 1 :: else fi;
	if :: BEHIND && lacks_one(i, w, k) -> hv[i] = hv[i] | BIT(k, w); run_behind(i) :: else fi
}
inline do_apply(i, k) {
	if
	:: k < pit[i] && FAULT != 5
	:: k == pit[i] && stale && (stg[2 * i] != k + 1 || stg[2 * i + 1] != k + 1) ->
		over = 1 /* it ends: it lacks a push */
	:: else ->
		assert(k == pit[i] && stg[2 * i] == k + 1 && stg[2 * i + 1] == k + 1 && last > k);
		pit[i]++; stg[2 * i] = 0; stg[2 * i + 1] = 0;
		assert(!(FAULT == 15 && rch[i] < k && hv[i] >> (2 * (k)) == 3));
		if :: BEHIND -> run_behind(i) :: else fi
	fi
}

inline answer() {
	if :: ow[0] == 1 -> ow[0] = 0; W[0]!ok, okv[0]; okv[0] = 0 :: else fi;
	if :: ow[1] == 1 -> ow[1] = 0; W[1]!ok, okv[1]; okv[1] = 0 :: else fi;
	if :: bw[0] == 1 -> bw[0] = 0; bare[0] = 0 :: else fi;
	if :: bw[1] == 1 -> bw[1] = 0; bare[1] = 0 :: else fi;
	if :: oa == 1 -> oa = 0; K!ok :: else fi;
	if :: oh == 1 -> oh = 0; K!ok :: else fi
}

inline count_down() {
	if :: ow[0] > 1 -> ow[0]-- :: else fi; if :: ow[1] > 1 -> ow[1]-- :: else fi;
	if :: oa > 1 -> oa-- :: else fi; if :: oh > 1 -> oh-- :: else fi;
	if :: bw[0] > 1 -> bw[0]-- :: else fi; if :: bw[1] > 1 -> bw[1]-- :: else fi;
	answer()
}

inline release() {
	if :: ow[0] -> ow[0] = 1 :: else fi; if :: ow[1] -> ow[1] = 1 :: else fi;
	if :: oa -> oa = 1 :: else fi; if :: oh -> oh = 1 :: else fi;
	if :: bw[0] -> bw[0] = 1 :: else fi; if :: bw[1] -> bw[1] = 1 :: else fi;
	answer()
}

inline forget() { /* what is on the way to a standby, and back */
	do :: nempty(R) -> R?_, _, _ :: empty(R) -> break od;
	do :: nempty(A) -> A?_ :: empty(A) -> break od;
	un = 0; lr = 0; mg = 0
}

#define since (mg > lr -> mg : lr)
#define ahead (kn & below(pit[prim]) & ~below(since) -> pit[prim] - since : 0)

inline send_merge() { R!merge, 0, pit[prim]; un++; mg = pit[prim] }

/* The first unit of which the worker has to keep its push. */
inline first_kept(w, k) {
	if
	:: lacks(prim) && FAULT != 16 -> tr = 0
	:: !sb -> tr = N
	:: FAULT == 8 -> tr = pit[prim]
	:: else -> tr = 0; do :: tr <= k && !(kn & BIT(tr, w)) -> tr++ :: else -> break od
	fi
}

inline give_answer(w) { if :: waits -> ow[w] = un + 1; okv[w] = tr :: else -> W[w]!ok, tr fi }

#define takes(w) d_step { alive && W[w]?[stage, _] && pit[prim] >= wk[w] ->	\
		W[w]?stage, tk; do_stage(prim, w, tk);				\
		if								\
		:: !BEHIND -> repeat(stage, w, tk)				\
		:: BEHIND && sb && tk == pit[prim] && keeps(w, tk) && kk[w] == 1 -> \
			kn = kn | BIT(tk, w); repeat(name, w, tk)		\
		:: BEHIND && sb && tk == pit[prim] && !(keeps(w, tk) && kk[w] == 1) -> \
			kn = kn & ~BIT(tk, w); repeat(stage, w, tk)		\
		:: else								\
		fi;								\
		tr = 0; if :: BEHIND -> first_kept(w, tk) :: else fi;		\
		give_answer(w) }

#define applies(when, then) d_step { alive && when && L?[apply, _] -> L?apply, tk; do_apply(prim, tk); \
		repeat(apply, 0, tk);						\
		if :: waits -> oa = un + 1 :: else -> K!ok fi;			\
		then }

/* A worker is known to keep its gradients; sends some; they are lost; it leaves. Or some are nowhere. */
#define keeper(w)								\
	d_step { BEHIND && alive && kk[w] == 0 && ws[w] < 4 && !gives(w) -> kk[w] = 1 }	\
	:: d_step { BEHIND && alive && gives(w) && (w == 0 || !gives(0)) ->	\
		tk = (gives_one(w, 0) -> 0 : (gives_one(w, 1) -> 1 : 2));	\
		hv[prim] = hv[prim] | BIT(tk, w); run_behind(prim); tk = 0 }		\
	:: d_step { BEHIND && alive && kk[w] == 2 -> kk[w] = 0; keeper_lost(w);	\
		if :: sb && un -> bw[w] = un + 1 :: else -> bare[w] = lacks(prim) fi }	\
	:: d_step { BEHIND && alive && W[w]?[leave, _] && !gives(w) -> W[w]?leave, _; \
		if :: FAULT != 14 -> keeper_lost(w) :: else fi; tr = N; give_answer(w) } \
	:: d_step { BEHIND && alive && nowhere(w) -> assert(bare[w] || stale); over = 1 }

inline keeper_lost(w) {
	if
	:: sb && FAULT != 10 ->
		if :: stg[2 * prim + w] && kn & BIT(pit[prim], w) && FAULT != 11 ->
			kn = kn & ~BIT(pit[prim], w); repeat(stage, w, pit[prim])
		:: else fi;
		if :: kn & below(pit[prim]) & (BIT(0, w) | BIT(1, w) | BIT(2, w)) -> send_merge()
		:: else fi
	:: else
	fi
}

proctype Part() {
end:	do
	:: takes(0)
	:: takes(1)
	:: d_step { alive && L?[hold, _] -> L?hold, tk;
		if
		:: stg[2 * prim] == tk + 1 && stg[2 * prim + 1] == tk + 1 ->
			if :: BEHIND && sb && ahead && ahead + 1 > BEHIND && FAULT != 9 -> send_merge()
			:: else fi;
			repeat(hold, 0, tk);
			if :: waits -> oh = un + 1 :: else -> K!ok fi
		:: else -> K!missing
		fi }
	:: applies(true, skip)
	:: applies(BEHIND && sb, if :: ahead -> send_merge() :: else fi) /* from half of the bound on */
	:: d_step { alive && nempty(A) -> A?tr; un--;
		if :: tr > lr && BEHIND -> lr = tr; kn = kn & ~below(lr) :: else fi;
		count_down() }
	:: keeper(0)
	:: keeper(1)
	:: d_step { alive && sb && !force && !ending && (un == 0 || FAULT == 3) ->
		force = 1; named = sb }
	:: d_step { IS_FAR && alive && force && said != sb -> said = sb }
	/* a standby comes: a copy of what is here */
	:: d_step { alive && !sb && lives < LIVES - 1 && !(IS_FAR && lost) &&
			(!lacks(prim) || FAULT == 13) -> lives++; sb = lives + 1;
		rch[lives] = rch[prim]; hv[lives] = hv[prim];
		if :: BEHIND -> lr = pit[prim]; bare[0] = (kk[0] == 2); bare[1] = (kk[1] == 2)
		:: else fi;
		pit[lives] = pit[prim];
		stg[2 * lives] = (FAULT == 4 -> 0 : stg[2 * prim]);
		stg[2 * lives + 1] = stg[2 * prim + 1] }
	/* it is lost */
	:: d_step { alive && sb && !ending && !lost && LOSSES -> lost = sb; kn = kn & ~below(pit[prim]);
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
		:: tm == name && tk == pit[sb - 1] -> stg[2 * (sb - 1) + tw] = tk + 1;
			hv[sb - 1] = hv[sb - 1] & ~BIT(tk, tw)
		:: tm == name && tk != pit[sb - 1]
		:: tm == merge -> assert(pit[sb - 1] == tk); rch[sb - 1] = tk;
			hv[sb - 1] = hv[sb - 1] & ~below(tk)
		:: tm == hold -> assert(stg[2 * (sb - 1)] == tk + 1 && stg[2 * (sb - 1) + 1] == tk + 1)
		:: tm == apply -> do_apply((sb - 1), tk)
		fi;
		if :: !dead -> A!(BEHIND -> rch[sb - 1] : 0) :: else fi }
	/* the lock is free; or, FAR, it is told that the part is dead */
	:: d_step { dead && sb && (IS_FAR -> said : named) == sb -> prim = sb - 1; dead = 0;
		kk[0] = BEHIND && !gives(0); kk[1] = BEHIND && !gives(1);
		assert(!BEHIND || pit[prim] - rch[prim] <= BEHIND);
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
	:: c?[leave, _] -> c?leave, _; c!again, 0
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
		okv[0] = 0; okv[1] = 0; bw[0] = 0; bw[1] = 0; kk[0] = 0; kk[1] = 0;
		/* Nobody sees what was in it. */
		pit[prim] = 0; stg[2 * prim] = 0; stg[2 * prim + 1] = 0; rch[prim] = 0; hv[prim] = 0;
		kn = 0; lr = 0; mg = 0; un = 0; do :: nempty(A) -> A?_ :: empty(A) -> break od;
		do :: nempty(L) -> L?_, _ :: empty(L) -> break od;
		if :: up && !cut -> K!closed; cut = 1 :: else fi }
	:: deaths == DEATHS || over -> break
	:: it == N && pit[prim] == N -> break
	od
}

proctype Check() {
	over || (ws[0] == 4 && ws[1] == 4 && !dead && pit[prim] == N &&
		(!BEHIND || rch[prim] == N)); /* or this never ends */
	assert(over || (it == N && last == N))
}

init { atomic {
	up = 1; kk[0] = 1; kk[1] = 1;
	run Worker(0); run Worker(1); run Lead(); run Part(); run Standby(); run Death(); run Check()
} }
