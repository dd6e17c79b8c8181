import { acmeSh } from './acme-sh.ts'
import { caddy26, caddy211 } from './caddy.ts'
import { certbot2, certbot5 } from './certbot.ts'
import type { AcmeClient } from './client.ts'
import { dehydrated } from './dehydrated.ts'
import { haproxy } from './haproxy.ts'
import { lego4 } from './lego.ts'
import { modMd } from './mod-md.ts'
import { acme4j, acmeClient, ansible, autocert, instantAcme, lego5 } from './programs.ts'
import { traefik } from './traefik.ts'
import { uacme } from './uacme.ts'

/** All of them. */
export const CLIENTS: readonly AcmeClient[] = [
  certbot5,
  certbot2,
  lego5,
  lego4,
  caddy211,
  caddy26,
  traefik,
  dehydrated,
  uacme,
  modMd,
  acme4j,
  acmeClient,
  autocert,
  instantAcme,
  ansible,
  acmeSh,
  haproxy,
]
