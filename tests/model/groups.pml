/*
 * Groups (lib/lead/gate_grants.c) whose pushes are summed on the way to a server, on their host and
 * from host to host (lib/fabric/relay_sum.c, relay_far.c), as a Spin model: three workers, the
 * fabricds of their hosts, a lead, one part and shardd under ASP.  A batch is one row.  Which
 * announcements are granted together, and when, is open: no schedule.
 *
 * HOSTS says where each worker is; host 1 sums all.  With OWN=1 the part is the lead's own: what is pushed is pushed to both, and an order is obeyed at
 * once; else an order may be read at any later time.  What goes wrong, each at any step and as often
 * as its macro says:
 *
 *     DEATHS   a worker dies             FABRICS  the fabricds die, and come again
 *     STOPS    the fabricd that sums all is stopped, until somebody kills it
 *     CUTS     a worker's connections are cut: it says everything again, and a push may still be
 *              read, at any later time   LEADS    the lead dies: back to the first checkpoint
 *     HEIRS    it is handed over         LETS     a worker that lives is let go
 *
 *     spin -search -O2 groups.pml               no error
 *     spin -DFAULT=1 -DCUTS=1 -search groups.pml   1 to 14: each must find one (tests/model/run)
 *
 * A grant may be given up at any time, and so may a sum that waits for others: no clock.
 *
 * Checked: what is applied is the gradients of the rows that shardd settled, each once, whichever
 * sums they are in; no commit has a delay over the bound; a worker is told what became of its rows;
 * as long as nothing goes wrong no part lacks what it is asked for; nobody waits for ever.
 */
#ifndef HOSTS
#define HOSTS 121
#endif
#ifndef NW
#define NW 3    /* workers; 2: the first two */
#endif
#ifndef R
#define R NW    /* rows */
#endif
#ifndef D
#define D 9     /* the bound of the delay; 9: none */
#endif
#ifndef TAKES
#define TAKES R /* batches in all, but for those of rows that come back as somebody goes: a path with
                 * more ends.  Less than 9, as each is a bit */
#endif
#ifndef OWN
#define OWN 0
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef FABRICS
#define FABRICS 0
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef CUTS
#define CUTS 0
#endif
#ifndef LEADS
#define LEADS 0
#endif
#ifndef HEIRS
#define HEIRS 0
#endif
#ifndef LETS
#define LETS 0
#endif
#ifndef FAULT
#define FAULT 0
#endif
/* FAULT: what is left out or done wrong.
 *  1 a part holds a sum that is not whole
 *  2 the number of a sum is that of its group
 *  3 a sum says how many of it are on the host that sums all
 *  4 what is held gives way to a push that is repeated
 *  5 shardd settles those of a group that it can
 *  6 a group is not given up when a member goes
 *  7 of a group the age of one member counts
 *  8 a push of a group that was given up is judged alone
 *  9 a drop that is read late drops whatever is staged then
 * 10 what another host sums is sent as it is, too, after a while
 * 11 the host that sums all does not wait for the others
 * 12 what is here of a group that is given up is judged alone, too
 * 13 nobody kills a fabricd that is stopped
 * 14 a part does not compare generations
 */

#define WS 3
mtype = { announce, push, granted, applied, dropped, fenced, hold, apply, drop };
chan W[WS] = [1] of { mtype };             /* worker and lead: a request, or its answer */
chan O = [6] of { mtype, byte, byte, byte }; /* lead to part: apply: whom; drop: worker, generation,
                                              sequence */

byte free = R, done, takes, most = TAKES; bool over;     /* shardd: rows */
byte hand[WS], com[WS];                    /* the sequence of the push that its row is for; of the
                                              last one that was committed */
byte life[WS] = 1, seq[WS], pulled[WS], bid[WS]; /* workers; bid: which batch, a bit */
byte st[WS], wg[WS], wm[WS];               /* 0 idle, 1 announces, 2 has announced, 3 pushes; its
                                              group, whose members are */
bool dead[WS];
byte wrong, deaths, fabrics, stops, cuts, leads, heirs, lets;

/* Fabric.  rs: a push 1 waits for others of its group, 2 is in a sum for another host, 3 goes to the
 * part, and then its worker tells the lead; its sum, of how many it is, and whose gradients it brings. */
byte rs[WS], rsum[WS], rof[WS], rcon[WS];
/* Sums from other hosts.  1: it comes, 2: it was added, 3: it was not; whose pushes wait for that,
 * which gradients are in it, how many those are; group, its members, the number of the whole. */
byte gs[2], gw[2], gcon[2], ghere[2], ggrp[2], gof[2], gnum[2];
bool stopped;
/* What is read late, of one push.  1: by the part, 2: by the lead, 3: by both. */
byte lk, lw, llife, lseq, lpul, lgrp, lsum, lof, lcon, lbid;

byte plife[WS], pseq[WS], psum[WS], pof[WS], pcon[WS], pbid[WS]; bool pheld[WS]; byte pver;

byte version, gen[WS]; bool waits[WS]; /* the lead: gen 0: out */
byte an[WS], as[WS], ap[WS], ag[WS], am[WS]; bool al[WS]; /* announced: 1 asked, 2 granted, 3 over */
byte hs[WS], hp[WS], hg[WS], hm[WS]; bool hl[WS];         /* held */
byte us, um; bool ul;                      /* a unit: 1 hold, 2 settle is not answered; whose; late */
byte ss[WS], sg[WS], sp[WS], ds[WS]; bool dd[WS]; /* sent: sequence, generation, pulled; done */

hidden byte i, k, x, y, z, ts, tp, tg, tgrp, miss; hidden mtype tm;

#define is_in(w, mask) ((mask) >> (w) & 1)
#define bit(w) (1 << (w))
#define host(w) ((w) == 0 -> HOSTS / 100 : ((w) == 1 -> HOSTS / 10 % 10 : HOSTS % 10))
#define of_host(h) ((host(0) == (h)) | (host(1) == (h)) << 1 | (host(2) == (h)) << 2)
#define size(mask) (is_in(0, mask) + is_in(1, mask) + is_in(2, mask))
#define here(w) size(wm[w] & of_host(host(w)))
/* All of its group are summed on host 1, if one of them is there. */
#define is_far(w) ((wm[w] & of_host(1)) && here(w) < size(wm[w]))
#define sums(w) (is_far(w) -> size(wm[w]) : here(w)) /* so many in one sum */
#define works(w) (!(stopped && host(w) == 1))
#define answer(w, m) if :: waits[w] -> waits[w] = 0; W[w]!m :: else fi

/* ---- the part ---- */

#define is_staged(w, l, s) (pseq[w] == (s) && (plife[w] == (l) || FAULT == 14) && pseq[w])

inline unstage(w) {
	plife[w] = 0; pseq[w] = 0; psum[w] = 0; pof[w] = 0; pcon[w] = 0; pbid[w] = 0; pheld[w] = 0
}

/* What is older than what is here nobody will name. */
inline stage(w, l, s, sum, sumof, con, b) {
	if
	:: (plife[w] > l && FAULT != 14) || (plife[w] == l && pseq[w] > s)
	:: plife[w] == l && pseq[w] == s && pheld[w] && FAULT != 4
	:: else ->
		plife[w] = l; pseq[w] = s; psum[w] = sum; pof[w] = sumof; pcon[w] = con; pbid[w] = b
	fi
}

/* miss: those of the unit that are not here as they are. */
inline do_hold() {
	miss = 0;
	for (i : 0 .. WS - 1) {
		z = 0;
		for (k : 0 .. WS - 1) {
			if
			:: is_in(k, um) && is_staged(k, sg[k], ss[k]) && psum[k] == psum[i] -> z++
			:: else
			fi
		}
		if
		:: is_in(i, um) && !is_staged(i, sg[i], ss[i]) -> miss = miss | bit(i)
		:: is_in(i, um) && is_staged(i, sg[i], ss[i]) && psum[i] && z != pof[i] && FAULT != 1 -> miss = um
		:: else
		fi
	}
	miss = miss & um;
	for (i : 0 .. WS - 1) { if :: is_in(i, um) && !is_in(i, miss) -> pheld[i] = 1 :: else fi }
	held()
}

inline do_apply(mask) {
	x = 0; y = 0;
	for (i : 0 .. WS - 1) {
		if
		:: is_in(i, mask) ->
			assert(pheld[i] && !(x & pcon[i]));
			x = x | pcon[i]; y = y | pbid[i]; unstage(i)
		:: else
		fi
	}
	assert(x == y);
	pver++
}

inline do_drop(w, l, s) { if :: (plife[w] == l && pseq[w] == s) || FAULT == 9 -> unstage(w) :: else fi }

/* ---- the lead ---- */

inline forget_grant(w) { an[w] = 0; as[w] = 0; ap[w] = 0; ag[w] = 0; am[w] = 0; al[w] = 0 }
inline forget_held(w) { hs[w] = 0; hp[w] = 0; hg[w] = 0; hm[w] = 0; hl[w] = 0 }
inline forget_sent(w) { ss[w] = 0; sg[w] = 0; sp[w] = 0; um = um & ~bit(w) }

inline give_up(g) {
	for (k : 0 .. WS - 1) {
		if :: g && an[k] && ag[k] == g -> al[k] = 1; ag[k] = 0 :: else fi;
		if :: g && hs[k] && hg[k] == g -> hl[k] = (FAULT != 12); hg[k] = 0; hm[k] = 0 :: else fi
	}
}

inline order_drop(w, l, s) { if :: OWN -> do_drop(w, l, s) :: else -> O!drop, w, l, s fi }

inline worker_out(w) {
	z = ag[w]; y = hg[w];
	if :: hs[w] -> order_drop(w, gen[w], hs[w]) :: else fi;
	forget_grant(w); forget_held(w); gen[w] = 0;
	if :: FAULT != 6 -> give_up(z); give_up(y) :: else fi;
	if :: ss[w] :: else -> answer(w, fenced) fi
}

/* tm, ts, tp, tg, tgrp of worker w; `now`: on its connection of now. */
inline request(w, now) {
	waits[w] = waits[w] || now;
	if
	:: gen[w] == 0 || gen[w] != tg -> if :: now -> answer(w, fenced) :: else fi
	:: gen[w] == tg && (hs[w] == ts || (ss[w] == ts && sg[w] == tg))
	:: gen[w] == tg && ts <= ds[w] ->
		if
		:: now && ts == ds[w] && dd[w] -> answer(w, dropped)
		:: now && !(ts == ds[w] && dd[w]) -> answer(w, applied)
		:: else
		fi
	:: gen[w] == tg && !(hs[w] == ts || (ss[w] == ts && sg[w] == tg)) && ts > ds[w] ->
		assert(!hs[w]);
		if
		:: tm == announce && an[w] && as[w] == ts -> if :: an[w] != 1 -> answer(w, granted) :: else fi
		:: tm == announce && !(an[w] && as[w] == ts) -> an[w] = 1; as[w] = ts; ap[w] = tp
		:: else ->
			hs[w] = ts; hp[w] = tp;
			hl[w] = al[w] || (tgrp && ag[w] != tgrp && FAULT != 8);
			z = ag[w];
			if :: !hl[w] && z == tgrp -> hg[w] = z; hm[w] = am[w]; z = 0 :: else fi;
			if :: FAULT == 8 -> hl[w] = 0 :: else fi;
			forget_grant(w);
			give_up(z)
		fi
	fi;
	ts = 0; tp = 0; tm = 0; tg = 0; tgrp = 0; x = 0; y = 0; z = 0; k = 0
}

/* All in this mask have announced: a group, or one. */
#define may_grant(mask) ((!is_in(0, mask) || an[0] == 1) && (!is_in(1, mask) || an[1] == 1) && \
	(!is_in(2, mask) || an[2] == 1))
#define has_group(w) (ag[w] == z || hg[w] == z || wg[w] == z)
inline grant(mask) {
	z = (size(mask) > 1);
	do
	:: z && (has_group(0) || has_group(1) || has_group(2) || ggrp[0] == z || ggrp[1] == z || lgrp == z) -> z++
	:: else -> break
	od;
	for (i : 0 .. WS - 1) {
		if
		:: is_in(i, mask) && size(mask) > 1 -> an[i] = 2; ag[i] = z; am[i] = mask; answer(i, granted)
		:: is_in(i, mask) && size(mask) == 1 -> an[i] = 2; answer(i, granted)
		:: else
		fi
	}
	i = 0; z = 0
}

/* Whether w is held alone, or all of its group are, and w is the first. */
#define goes_with(k, w) (hs[k] && hg[k] == hg[w])
#define is_ready(w) (us == 0 && hs[w] && (!hg[w] || ((!is_in(0, hm[w]) || goes_with(0, w)) && \
	(!is_in(1, hm[w]) || goes_with(1, w)) && (!is_in(2, hm[w]) || goes_with(2, w)) && \
	(hm[w] & (bit(w) - 1)) == 0)))
inline send(w) {
	x = (hg[w] -> hm[w] : bit(w)); y = 0;
	for (i : 0 .. WS - 1) {
		if :: is_in(i, x) && D < 9 && hp[i] + D < version && (FAULT != 7 || i == w) -> y = 1 :: else fi
	}
	if
	:: y && hg[w] -> y = hg[w]; give_up(y)
	:: else ->
		ul = hl[w] || y; um = x; us = (ul -> 2 : 1);
		for (i : 0 .. WS - 1) {
			if
			:: is_in(i, x) -> ss[i] = hs[i]; sg[i] = gen[i]; sp[i] = hp[i]; forget_held(i)
			:: else
			fi
		}
		if :: !ul && OWN -> do_hold() :: !ul && !OWN -> O!hold, 0, 0, 0 :: else fi
	fi;
	x = 0; y = 0; z = 0; i = 0; k = 0
}

/* Its push is not settled, and nobody will name it again. */
inline refuse(w) {
	ts = sg[w]; order_drop(w, ts, ss[w]); forget_sent(w);
	if
	:: gen[w] == ts -> worker_out(w)
	:: gen[w] != ts && life[w] == ts -> answer(w, fenced)
	:: else
	fi;
	ts = 0
}

/* The part has answered. */
inline held() {
	if
	:: miss ->
		assert(wrong);
		for (i : 0 .. WS - 1) {
			if
			:: is_in(i, miss) -> refuse(i)
			:: else
			fi
		}
		ul = 1; us = (um -> 2 : 0)
	:: else -> us = 2
	fi;
	if :: us == 0 -> ul = 0 :: else fi;
	miss = 0; i = 0; k = 0; x = 0; y = 0; z = 0
}

#define is_its(w) (hand[w] == ss[w] && life[w] == sg[w])
inline tell(w, what) {
	if :: sg[w] == gen[w] || sg[w] == life[w] -> answer(w, what) :: else fi
}

inline order_apply() { if :: OWN -> do_apply(um) :: else -> O!apply, um, 0, 0 fi }

/* shardd has answered: all, or, where somebody's rows are not his any more, none. */
inline settled() {
	x = 0;
	for (i : 0 .. WS - 1) { if :: is_in(i, um) && !is_its(i) -> x = x | bit(i) :: else fi }
	for (i : 0 .. WS - 1) {
		if
		:: is_in(i, x) -> refuse(i)
		:: else
		fi
	}
	if
	:: x && !ul && um && FAULT != 5 -> ul = 1 /* the others are asked for anew */
	:: else ->
		for (i : 0 .. WS - 1) {
			if
			:: is_in(i, um) ->
				ds[i] = ss[i]; dd[i] = ul; hand[i] = 0;
				if
				:: ul -> free++; tell(i, dropped); order_drop(i, sg[i], ss[i])
				:: else -> assert(sp[i] + D >= version && pbid[i] == bid[i]); done++; com[i] = ss[i]; tell(i, applied)
				fi
			:: else
			fi
		}
		if :: !ul && um -> version++; order_apply() :: else fi;
		for (i : 0 .. WS - 1) { if :: is_in(i, um) -> forget_sent(i) :: else fi }
		us = 0; ul = 0
	fi;
	x = 0; y = 0; z = 0; i = 0; k = 0
}

#define of_lead(w)									\
	:: d_step { W[w]?[announce] || W[w]?[push] -> W[w]?tm;				\
		ts = seq[w]; tp = pulled[w]; tg = life[w]; tgrp = wg[w]; request(w, 1) } \
	:: d_step { an[w] == 2 -> an[w] = 3; z = ag[w]; give_up(z); z = 0; k = 0 }	\
	:: d_step { dead[w] && gen[w] -> worker_out(w); x = 0; y = 0; z = 0; k = 0 }	\
	:: d_step { gen[w] && !dead[w] && lets < LETS && !over -> lets++; wrong = 1;	\
		worker_out(w); x = 0; y = 0; z = 0; k = 0 }				\
	:: d_step { is_ready(w) -> send(w) }

proctype Lead() {
end:	do
	of_lead(0)
	of_lead(1)
	of_lead(2)
	:: d_step { may_grant(1) -> grant(1) }
	:: d_step { may_grant(2) -> grant(2) }
	:: d_step { may_grant(4) -> grant(4) }
	:: d_step { may_grant(3) -> grant(3) }
	:: d_step { may_grant(5) -> grant(5) }
	:: d_step { may_grant(6) -> grant(6) }
	:: d_step { may_grant(7) -> grant(7) }
	:: d_step { us == 2 -> settled() }
	/* the part reads an order */
	:: d_step { O?[hold, _, _, _] -> O?hold, _, _, _; do_hold() }
	:: d_step { O?[apply, _, _, _] -> O?apply, z, _, _; do_apply(z); x = 0; y = 0; z = 0; i = 0 }
	:: d_step { O?[drop, _, _, _] -> O?drop, x, y, z; do_drop(x, y, z); x = 0; y = 0; z = 0 }
	od
}

/* ---- fabric ---- */

/* At the part, and with OWN at the lead. */
inline arrive(w) {
	stage(w, life[w], seq[w], rsum[w], rof[w], rcon[w], bid[w]);
	rs[w] = 0; rsum[w] = 0; rof[w] = 0; rcon[w] = 0;
	if
	:: OWN -> tm = push; ts = seq[w]; tp = pulled[w]; tg = life[w]; tgrp = wg[w]; request(w, 1)
	:: else -> W[w]!push
	fi
}

inline arrive_late() {
	if :: lk != 2 -> stage(lw, llife, lseq, lsum, lof, lcon, lbid) :: else fi;
	if
	:: lk != 1 -> tm = push; ts = lseq; tp = lpul; tg = llife; tgrp = lgrp; request(lw, 0)
	:: else
	fi;
	lk = 0; lw = 0; llife = 0; lseq = 0; lpul = 0; lgrp = 0; lsum = 0; lof = 0; lcon = 0; lbid = 0
}

inline alone(w) { rs[w] = 3; rcon[w] = bid[w] }

#define is_mate(w, v) (rs[v] == 1 && host(v) == host(w) && wg[v] == wg[w] && size(wm[v]) == size(wm[w]))
#define mates(w) (is_mate(w, 0) + is_mate(w, 1) + is_mate(w, 2))
#define is_guest(w, g) (gs[g] == 1 && ggrp[g] == wg[w] && gof[g] == size(wm[w]))
#define guests(w) (is_guest(w, 0) * ghere[0] + is_guest(w, 1) * ghere[1])
#define room (gs[0] == 0 -> 0 : 1)

/* The least number that is not in use is as good as a new one, and makes fewer states. */
#define has_number(w) (rsum[w] == z || psum[w] == z)
inline new_number() {
	z = 1;
	do
	:: has_number(0) || has_number(1) || has_number(2) || gnum[0] == z || gnum[1] == z || lsum == z -> z++
	:: else -> break
	od
}

#define sums_here(w) (rs[w] == 1 && !(is_far(w) && host(w) != 1) && \
	(mates(w) + (is_far(w) -> guests(w) : 0) == sums(w) || \
	 (FAULT == 11 && is_far(w) && mates(w) == here(w))))
#define said_of(w) (FAULT == 3 -> here(w) : sums(w))
/* w gets the sum of all. */
inline sum_here(w) {
	x = 0;
	new_number();
	if :: FAULT == 2 -> z = wg[w] :: else fi;
	for (i : 0 .. 1) {
		if
		:: is_far(w) && is_guest(w, i) -> x = x | gcon[i]; gs[i] = 2; gnum[i] = z
		:: else
		fi
	}
	for (i : 0 .. WS - 1) {
		if :: i != w && is_mate(w, i) -> x = x | bid[i]; rs[i] = 3; rsum[i] = z; rof[i] = said_of(w) :: else fi
	}
	rs[w] = 3; rsum[w] = z; rof[w] = said_of(w); rcon[w] = x | bid[w];
	x = 0; z = 0; i = 0
}

#define carries(w) (rs[w] == 1 && is_far(w) && host(w) != 1 && mates(w) == here(w) && \
	(gs[0] == 0 || gs[1] == 0))
inline carry(w) {
	k = room;
	gs[k] = 1; ghere[k] = here(w); ggrp[k] = wg[w]; gof[k] = size(wm[w]); y = 0;
	for (i : 0 .. WS - 1) { if :: is_mate(w, i) -> gw[k] = gw[k] | bit(i); y = y | bit(i) :: else fi }
	for (i : 0 .. WS - 1) { if :: is_in(i, y) -> gcon[k] = gcon[k] | bid[i]; rs[i] = 2 :: else fi }
	i = 0; k = 0; y = 0
}

inline forget_guest(g) {
	gs[g] = 0; gw[g] = 0; gcon[g] = 0; ghere[g] = 0; ggrp[g] = 0; gof[g] = 0; gnum[g] = 0
}

/* The host where it comes from hears what became of it. */
inline back(g) {
	for (i : 0 .. WS - 1) {
		if
		:: is_in(i, gw[g]) && gs[g] == 2 && rs[i] == 2 -> rs[i] = 3; rsum[i] = gnum[g]; rof[i] = gof[g]
		:: is_in(i, gw[g]) && gs[g] == 3 && rs[i] == 2 -> alone(i)
		:: else
		fi
	}
	forget_guest(g); i = 0
}

/* ---- what is cut ---- */

inline cut(w, may_be_late) {
	wrong = 1;
	if
	:: may_be_late && lk == 0 && rs[w] == 3 ->
		lk = (OWN -> 3 : 1); lw = w; llife = life[w]; lseq = seq[w]; lpul = pulled[w]; lgrp = wg[w];
		lsum = rsum[w]; lof = rof[w]; lcon = rcon[w]; lbid = bid[w]
	:: may_be_late && lk == 0 && W[w]?[push] ->
		lk = 2; lw = w; llife = life[w]; lseq = seq[w]; lpul = pulled[w]; lgrp = wg[w]
	:: else
	fi;
	rs[w] = 0; rsum[w] = 0; rof[w] = 0; rcon[w] = 0;
	gw[0] = gw[0] & ~bit(w); gw[1] = gw[1] & ~bit(w);
	do :: nempty(W[w]) -> W[w]?_ :: empty(W[w]) -> break od;
	waits[w] = 0; wg[w] = 0; wm[w] = 0;
	if :: st[w] -> st[w] = 1 :: else fi
}
#define is_late(w) (lk == 0 && (rs[w] == 3 || W[w]?[push]))

/* w's push is read late, as the last one of those that were under way; WS: none is. */
inline fabric_dies(w) {
	stopped = 0;
	for (i : 0 .. WS - 1) { cut(i, i == w) }
	forget_guest(0); forget_guest(1); i = 0
}

#define of_fabric(w)									\
	:: d_step { rs[w] == 3 && works(w) -> arrive(w) }				\
	:: d_step { rs[w] == 1 && works(w) -> alone(w) }				\
	:: d_step { FAULT == 10 && rs[w] == 2 && works(w) -> alone(w) }			\
	:: d_step { sums_here(w) && works(w) -> sum_here(w) }				\
	:: d_step { carries(w) -> carry(w) }
#define of_guest(g)									\
	:: d_step { gs[g] == 1 && !stopped -> gs[g] = 3 }				\
	:: d_step { gs[g] > 1 -> back(g) }

proctype Fabric() {
end:	do
	of_fabric(0)
	of_fabric(1)
	of_fabric(2)
	of_guest(0)
	of_guest(1)
	:: d_step { lk -> arrive_late() }
	:: d_step { stops < STOPS && !over -> stops++; stopped = 1 }
	:: d_step { stopped && FAULT != 13 -> fabric_dies(WS) }
	:: d_step { stopped && is_late(0) && FAULT != 13 -> fabric_dies(0) }
	:: d_step { fabrics < FABRICS && !over -> fabrics++; fabric_dies(WS) }
	:: d_step { fabrics < FABRICS && !over && is_late(0) -> fabrics++; fabric_dies(0) }
	:: d_step { fabrics < FABRICS && !over && is_late(1) -> fabrics++; fabric_dies(1) }
	:: d_step { fabrics < FABRICS && !over && is_late(2) -> fabrics++; fabric_dies(2) }
	od
}

/* ---- workers ---- */

#define lives (!dead[w] && !over)

inline back_to_shardd(w) { hand[w] = 0; free++; if :: most < 8 -> most++ :: else fi }

inline next_life(w) {
	if :: hand[w] -> back_to_shardd(w) :: else fi;
	life[w]++; seq[w] = 0; com[w] = 0; ds[w] = 0; dd[w] = 0; pulled[w] = 0; bid[w] = 0; st[w] = 0; wg[w] = 0;
	wm[w] = 0; rs[w] = 0; rsum[w] = 0; rof[w] = 0; rcon[w] = 0; gw[0] = gw[0] & ~bit(w); gw[1] = gw[1] & ~bit(w)
}

proctype Worker(byte w) {
end:	do
	:: d_step { lives && st[w] == 0 && free && takes == most -> over = 1 }
	:: d_step { lives && st[w] == 0 && free && takes < most && pver == version ->
		if :: seq[w] == 0 -> gen[w] = life[w] :: else fi;
		free--; seq[w]++; hand[w] = seq[w]; bid[w] = bit(takes); takes++;
		pulled[w] = (D < 9 -> version : 0); st[w] = 2; W[w]!announce }
	:: d_step { lives && st[w] == 1 -> st[w] = 2; W[w]!announce }
	:: d_step { lives && st[w] == 2 && W[w]?[granted] -> W[w]?granted; st[w] = 3;
		wg[w] = ag[w]; wm[w] = (ag[w] -> am[w] : 0);
		if :: wg[w] && sums(w) > 1 -> rs[w] = 1 :: else -> alone(w) fi }
	:: d_step { lives && W[w]?[dropped] -> W[w]?dropped; rs[w] = 0; wg[w] = 0; wm[w] = 0; bid[w] = 0;
		assert(com[w] != seq[w] && hand[w] == 0); st[w] = 0 }
	:: d_step { lives && W[w]?[applied] -> W[w]?applied; rs[w] = 0; wg[w] = 0; wm[w] = 0; bid[w] = 0;
		assert(com[w] == seq[w]); st[w] = 0 }
	:: d_step { lives && W[w]?[fenced] -> W[w]?fenced; next_life(w) }
	:: d_step { lives && deaths < DEATHS -> deaths++; cut(w, 0); dead[w] = 1 }
	:: d_step { lives && deaths < DEATHS && is_late(w) -> deaths++; cut(w, 1); dead[w] = 1 }
	:: d_step { dead[w] && hand[w] -> back_to_shardd(w) }
	:: d_step { dead[w] && !hand[w] && !gen[w] && !ss[w] && !pheld[w] && !over -> dead[w] = 0; next_life(w) }
	:: d_step { lives && st[w] && cuts < CUTS -> cuts++; cut(w, 0) }
	:: d_step { lives && st[w] && cuts < CUTS && is_late(w) -> cuts++; cut(w, 1) }
	od
}

/* The lead dies, or is handed over. */
proctype Heir() {
end:	do
	:: d_step { heirs < HEIRS && !over -> heirs++;
		for (i : 0 .. WS - 1) {
			forget_grant(i);
			if :: hs[i] && hg[i] -> hl[i] = 1; hg[i] = 0; hm[i] = 0 :: else fi;
			cut(i, 0)
		}
		i = 0 }
	/* Members are out, all rows are back, the part has what it had then; what is on its way between
	 * hosts goes on. */
	:: d_step { leads < LEADS && !over -> leads++;
		version = 0; pver = 0; done = 0; free = R; us = 0; um = 0; ul = 0;
		do :: nempty(O) -> O?_, _, _, _ :: empty(O) -> break od;
		lk = 0; lw = 0; llife = 0; lseq = 0; lpul = 0; lgrp = 0; lsum = 0; lof = 0; lcon = 0; lbid = 0;
		for (i : 0 .. WS - 1) {
			cut(i, 0); forget_grant(i); forget_held(i); forget_sent(i); unstage(i);
			gen[i] = 0; hand[i] = 0; ds[i] = 0; dd[i] = 0; com[i] = 0;
			if :: st[i] == 0 && seq[i] && !dead[i] -> next_life(i) :: else fi
		}
		most = (takes + R < 8 -> takes + R : 8); i = 0 }
	od
}

#define rests(w) (!dead[w] && st[w] == 0)

proctype Check() {
	d_step { over || (free == 0 && rests(0) && rests(1) && rests(2) && !stopped); /* or this never ends */
		assert(over || done == R) }
}

init { atomic {
	run Worker(0); run Worker(1);
#if NW > 2
	run Worker(2);
#endif
	run Lead(); run Fabric(); run Heir(); run Check()
} }
