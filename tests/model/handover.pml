/*
 * The hand-over of live servers (paceline-protocol(7), Hand-over) as a Spin model: two workers, a
 * lead, a part and shardd under BSP; the lead is handed over up to LH times and the part up to PH
 * times, at any step, also both at once; heirs may go before they have taken.  What is unread on a
 * connection that closes is lost, what was answered is not; what a lead that is gone had sent to
 * others may still be read by them.
 *
 *     spin -search -O2 handover.pml             no error, 0.6 million states
 *     spin -DLH=2 -search -O2 handover.pml      the lead twice
 *     spin -DFAULT=1 -search -O2 handover.pml   1 to 6: each must find one (tests/model/run)
 *
 * Checked: each unit is journalled once and applied once at both servers, in order, with the parts
 * of both workers staged; nobody waits for ever.  batch.pml is the life of a batch with crashes; here
 * nobody crashes.  Generations, late pushes and cuts are left out: a hand-over waits for a cut.
 */
#ifndef N
#define N 2  /* units */
#endif
#ifndef LH
#define LH 1
#endif
#ifndef PH
#define PH 1
#endif
#ifndef ENDS
#define ENDS 0 /* 1: no heir goes in vain: that may be as often as people ask for one */
#endif
#ifndef FAULT
#define FAULT 0
#endif
/* FAULT: what is left out or done wrong.
 *  1 an heir does not say the settle again
 *  2 what the part has not answered is forgotten
 *  3 an apply said twice is applied twice
 *  4 what is staged is not handed over
 *  5 the old one serves while its heir loads
 *  6 with ENDS, an heir that goes is followed by another one, for ever
 */
#define MAY_GO (!ENDS || FAULT == 6)
#define CONNECTIONS (LH + PH + 1)

mtype = { push, stage, settle, apply, ok, again, closed };
chan P[2] = [1] of { mtype, byte };            /* worker and part: a request, or its answer */
chan L[2] = [1] of { mtype, byte };            /* worker and lead */
chan S[LH + 1] = [1] of { mtype, byte };       /* each life of the lead and shardd */
chan A[CONNECTIONS] = [N + 1] of { byte };     /* lead to part: apply, a connection each */
chan K[CONNECTIONS] = [N + 2] of { mtype, byte }; /* and its answers */

byte last;                                     /* shardd: units in the journal */
byte it, acked, num, cur, llife; bool settling, up, waiting[2], dead[CONNECTIONS]; byte held[2];
byte pit, plife; byte stg[2];
bool lhand, phand;                             /* the state is sent, taken is not said */
byte h_stg[2], h_pit;                          /* what the part's heir has got */
byte wk[2], ws[2];
hidden byte ti, tk;

proctype Worker(byte w) {
	do
	:: d_step { ws[w] == 0 && empty(P[w]) -> P[w]!stage, wk[w]; ws[w] = 1 }
	:: d_step { ws[w] == 1 && P[w]?[ok, _] -> P[w]?ok, _; ws[w] = 2 }
	:: d_step { ws[w] == 1 && P[w]?[again, _] -> P[w]?again, _; ws[w] = 0 }
	:: d_step { ws[w] == 2 && empty(L[w]) -> L[w]!push, wk[w]; ws[w] = 3 }
	:: d_step { ws[w] == 3 && L[w]?[again, _] -> L[w]?again, _; ws[w] = 2 }
	:: d_step { ws[w] == 3 && L[w]?[ok, _] -> L[w]?ok, wk[w]; ws[w] = (wk[w] == N -> 4 : 0) }
	:: ws[w] == 4 -> break
	od
}

proctype Shardd(byte j) {                      /* the connection of each life of the lead */
end:	do
	:: d_step { S[j]?[settle, _] -> S[j]?settle, tk;
		if :: tk == last + 1 -> last = tk :: else -> assert(tk <= last) fi;
		if :: j == llife -> S[j]!ok, tk :: else fi }
	od
}

proctype Lead() {
	byte w;
end:	do
	:: d_step { !lhand && L[0]?[push, _] -> L[0]?push, tk;
		if :: tk < it -> L[0]!ok, it :: else -> held[0] = tk + 1; waiting[0] = 1 fi }
	:: d_step { !lhand && L[1]?[push, _] -> L[1]?push, tk;
		if :: tk < it -> L[1]!ok, it :: else -> held[1] = tk + 1; waiting[1] = 1 fi }
	:: d_step { !lhand && up && !settling && held[0] == it + 1 && held[1] == it + 1 ->
		settling = 1; num = it + 1; S[llife]!settle, num }
	:: d_step { !lhand && settling && S[llife]?[ok, _] -> S[llife]?ok, tk;
		assert(tk == num && num == it + 1 && last == num);
		settling = 0; it++;
		if :: up -> A[cur]!it - 1 :: else fi;
		for (ti : 0 .. 1) {
			held[ti] = 0;
			if :: waiting[ti] -> waiting[ti] = 0; L[ti]!ok, it :: else fi
		}
		ti = 0 }
	:: d_step { !lhand && up && K[cur]?[ok, _] -> K[cur]?ok, tk; assert(tk == acked); acked++ }
	:: d_step { !lhand && up && K[cur]?[closed, _] -> K[cur]?closed, _; up = 0; cur++ }
	:: d_step { !lhand && !up && !phand ->   /* connect, ask where it is, say again */
		assert(acked <= pit && pit <= it); up = 1;
		for (ti : acked .. it) { if :: ti < it -> A[cur]!ti :: else fi }
		ti = 0 }
	od
}

#define hear(j) d_step { (!phand || FAULT == 5) && nempty(A[j]) -> A[j]?tk;	\
		if							\
		:: tk < pit && FAULT != 3				\
		:: else ->						\
			assert(tk == pit && stg[0] == pit + 1 && stg[1] == pit + 1);	\
			assert(last > pit);				\
			pit++; stg[0] = 0; stg[1] = 0			\
		fi;							\
		if :: j == cur && up && !dead[j] -> K[j]!ok, tk :: else fi }

proctype Part() {
end:	do
	:: d_step { (!phand || FAULT == 5) && P[0]?[stage, _] && pit >= wk[0] ->
		P[0]?stage, tk; if :: tk == pit -> stg[0] = tk + 1 :: else fi; P[0]!ok, 0 }
	:: d_step { (!phand || FAULT == 5) && P[1]?[stage, _] && pit >= wk[1] ->
		P[1]?stage, tk; if :: tk == pit -> stg[1] = tk + 1 :: else fi; P[1]!ok, 0 }
	:: hear(0)
	:: hear(1)
#if CONNECTIONS > 2
	:: hear(2)
#endif
#if CONNECTIONS > 3
	:: hear(3)
#endif
#if CONNECTIONS > 4
	:: hear(4)
#endif
	od
}

/* The client asks again, unless an answer is on its way to it. */
inline lose(c, reading) {
	if
	:: c?[push, _] -> c?push, _; c!again, 0
	:: c?[stage, _] -> c?stage, _; c!again, 0
	:: empty(c) && reading -> c!again, 0
	:: empty(c) && !reading -> skip
	:: c?[ok, _] -> skip
	:: c?[again, _] -> skip
	fi
}

proctype LeadHeir() {
	do
	:: d_step { !lhand && llife < LH -> lhand = 1 }
	:: d_step { MAY_GO && lhand -> lhand = 0 }     /* it went: the old one goes on */
	:: d_step { lhand && llife < LH -> lhand = 0; llife++;
		lose(L[0], waiting[0]); lose(L[1], waiting[1]); waiting[0] = 0; waiting[1] = 0;
		if :: up -> dead[cur] = 1; up = 0; cur++ :: else fi;
		if :: settling && FAULT != 1 -> S[llife]!settle, num :: else fi;
		if :: FAULT == 2 -> acked = it :: else fi }
	:: !lhand && llife == LH -> break
	:: !lhand && last == N -> break
	od
}

proctype PartHeir() {
	do
	:: d_step { !phand && plife < PH -> phand = 1;
		h_pit = pit; h_stg[0] = stg[0]; h_stg[1] = stg[1] }
	:: d_step { MAY_GO && phand -> phand = 0 }
	:: atomic { phand && plife < PH -> phand = 0; plife++;
		pit = h_pit; stg[0] = (FAULT == 4 -> 0 : h_stg[0]); stg[1] = h_stg[1];
		lose(P[0], 0); lose(P[1], 0);
		for (ti : 0 .. CONNECTIONS - 1) {
			do :: nempty(A[ti]) -> A[ti]?_ :: empty(A[ti]) -> break od
		}
		if :: up -> dead[cur] = 1; K[cur]!closed, 0 :: else fi }
	:: !phand && plife == PH -> break
	:: !phand && pit == N -> break
	od
}

proctype Check() {
	ws[0] == 4 && ws[1] == 4 && pit == N;          /* or this never ends: an invalid end state */
	assert(it == N && last == N)
}

init { atomic {
	up = 1;
	run Worker(0); run Worker(1); run Lead(); run Part(); run LeadHeir(); run PartHeir(); run Check();
	for (ti : 0 .. LH) { run Shardd(ti) }
} }
