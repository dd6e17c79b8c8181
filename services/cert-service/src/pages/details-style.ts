/** Of the pages about one certificate, of problems and of notices. */
export const DETAILS = `
:root{--good:#1b6e35}
@media(prefers-color-scheme:dark){:root{--good:#7fd494}}
.icon{flex:none;width:1.25rem;height:1.25rem;margin-top:.15rem;fill:none;stroke:var(--tone);stroke-width:2.25;stroke-linecap:round;stroke-linejoin:round}
.good{--tone:var(--good)}
.busy{--tone:var(--accent)}
.warn{--tone:var(--warn)}
.bad{--tone:var(--bad)}
.past{--tone:var(--muted)}
.notice{display:flex;gap:.75rem;padding:1rem 1.25rem;border:1px solid var(--tone);border-inline-start-width:.4rem;border-radius:1rem;background:color-mix(in srgb,var(--tone) 8%,var(--card))}
.notice>div{display:grid;gap:.35rem;min-width:0}
.notice p{color:var(--ink)}
.notice .said{font-weight:600}
.notice ul{list-style:disc;padding-inline-start:1.25rem}
.toned{display:flex;gap:.6rem;align-items:start}
.toned span{min-width:0}
.toned .icon{width:1.6rem;height:1.6rem;margin-top:.3rem}
.facts-card{display:grid;gap:1rem}
.facts-card>.pages{flex-wrap:wrap}
.small .pages{flex-wrap:wrap}
.validity{max-width:48rem;--tone:var(--accent)}
.danger{color:var(--bad)}
.small .final{background:var(--bad)}
fieldset{display:grid;gap:.35rem;min-width:0;padding:.75rem 1rem;border:1px solid var(--muted);border-radius:.75rem}
legend{padding:0 .4rem;font-weight:600}
.choice{display:flex;gap:.6rem;align-items:start;padding:.3rem 0;font-weight:400}
.choice input{flex:none;width:1.25rem;min-height:1.25rem;margin-top:.15rem;accent-color:var(--accent)}
.choice code{color:var(--muted)}
.affected,.plain{display:grid;gap:.5rem;padding:.75rem 1rem;border-radius:.75rem;background:var(--page)}
.copied{display:grid;gap:.25rem;font-weight:400;color:var(--muted)}
.copied input,textarea{width:100%;font:.9em ui-monospace,monospace;color:var(--ink)}
textarea{padding:.6rem .9rem;border:1px solid var(--muted);border-radius:.75rem;background:var(--card);resize:vertical;field-sizing:content;overflow-wrap:anywhere}
select{min-height:2.75rem;padding:.4rem .9rem;border:1px solid var(--muted);border-radius:.75rem;background:var(--card);color:inherit;font:inherit}
textarea{min-height:2.75rem}
.small textarea{field-sizing:fixed}
details .copied{margin-top:.75rem}
.copy{user-select:all}
.chain{display:grid;gap:1rem;padding:0;list-style:none}
.chain li{padding-inline-start:1rem;border-inline-start:3px solid var(--accent)}
ul.past{display:grid;gap:.9rem}
ul.past li{display:flex;gap:.75rem}
ul.past div{min-width:0}
ul.past p{color:var(--ink)}
ul.past .muted{color:var(--muted);font-size:.9rem}
@media(forced-colors:active){.icon{stroke:CanvasText}}
`
