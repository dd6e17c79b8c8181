/** What somebody asked about a project of the field, and the section of our pages that answers it. */
interface Question {
  readonly question: string
  /** Where it was asked. */
  readonly source: string
  /** A page of docs, and the anchor of the section. */
  readonly answer: string
}

const askedAt = (source: string, question: string, answer: string): Question => ({
  question,
  source: `https://github.com/${source}`,
  answer,
})

/** Questions of trackers that people with Gatehouse have too. The words are ours. */
export const QUESTIONS: readonly Question[] = [
  askedAt(
    'oauth2-proxy/oauth2-proxy/issues/1225',
    'Why am I sent to the sign-in page again and again after I signed in?',
    'getting-started.md#when-the-sign-in-page-comes-again-and-again',
  ),
  askedAt(
    'oauth2-proxy/oauth2-proxy/issues/1902',
    'What happens to people who are in so many groups that headers get too long?',
    'identity-providers.md#identity-headers-for-apps',
  ),
  askedAt(
    'tinyauthapp/tinyauth/issues/472',
    'Why does the app behind Caddy not receive the groups of a person?',
    'caddy.md#when-it-does-not-work',
  ),
  askedAt(
    'goauthentik/authentik/issues/6519',
    'How does a program that sends a user and a password get to an app behind the sign-in?',
    'programs.md#basic-credentials',
  ),
  askedAt(
    'authelia/authelia/issues/542',
    'How do I ask for a second factor at one path, and for nothing at another?',
    'rules.md#rules',
  ),
  askedAt(
    'authelia/authelia/issues/2814',
    'Why does my rule not apply?',
    'rules.md#which-rule-decides',
  ),
  askedAt(
    'oauth2-proxy/oauth2-proxy/issues/1420',
    'Does somebody whose account is disabled at the provider stay signed in?',
    'sessions.md#what-the-provider-decides',
  ),
  askedAt(
    'oauth2-proxy/oauth2-proxy/issues/1684',
    'How do I end the session of one person?',
    'sessions.md#see-and-end-sessions',
  ),
  askedAt(
    'thomseddon/traefik-forward-auth/issues/115',
    'How do people sign in once for several domains?',
    'cookies.md#cookies',
  ),
  askedAt(
    'kubernetes/ingress-nginx/issues/811',
    'Why are large uploads answered with 413 or 500 behind nginx?',
    'nginx.md#when-it-does-not-work',
  ),
  askedAt(
    'smallstep/certificates/issues/202',
    'How does Proxmox VE get its certificate from the private CA?',
    'homelab-certificates.md#4-a-device-that-speaks-acme-such-as-proxmox-ve',
  ),
  askedAt(
    'NginxProxyManager/nginx-proxy-manager/issues/1417',
    'How do I use the private CA with an ACME client that asks for a directory?',
    'acme-clients.md#other-clients-and-appliances',
  ),
  askedAt(
    'caddyserver/caddy/issues/5324',
    'Which certificate do I install on my devices, so that they trust all the others for years?',
    'embedded-ca.md#trust-the-root',
  ),
  askedAt(
    'cert-manager/istio-csr/issues/137',
    'How do I replace the root of the private CA without a moment of failure?',
    'root-rollover.md#replace-the-root',
  ),
  askedAt(
    'authelia/authelia/issues/2557',
    'Which paths of Nextcloud do its apps need without a sign-in page?',
    'recipes.md#an-app-that-can-send-neither',
  ),
  askedAt(
    'immich-app/immich/issues/30869',
    'Why does the app of Immich stop working behind the sign-in?',
    'recipes.md#an-app-that-sends-a-header',
  ),
  askedAt(
    'home-assistant/android/issues/1438',
    'Why does the app of Home Assistant open the browser and never come back?',
    'recipes.md#an-app-that-shows-the-pages-of-its-server',
  ),
  askedAt(
    'oauth2-proxy/oauth2-proxy/issues/1549',
    'Why is the CORS preflight of a script refused?',
    'recipes.md#scripts-of-one-app-that-call-another',
  ),
  askedAt(
    'authelia/authelia/issues/2173',
    'What can a page do when the session has ended while it was open?',
    'recipes.md#a-page-whose-session-ends-in-the-background',
  ),
  askedAt(
    'thelounge/thelounge/pull/5060',
    'Why can I not install the app from the browser?',
    'recipes.md#apps-that-are-installed-from-the-browser',
  ),
  askedAt(
    'pomerium/pomerium/pull/2203',
    'Why does a sign-in by SAML in an app behind Gatehouse end at a page that says that nothing was sent?',
    'recipes.md#forms-that-another-site-sends',
  ),
  askedAt(
    'traefik/traefik/issues/3039',
    'Do WebSockets work behind the check?',
    'recipes.md#uploads-streams-and-websockets',
  ),
  askedAt(
    'smallstep/certificates/issues/2090',
    'What do apps on Android need, which trust no private CA?',
    'homelab-certificates.md#public-certificates',
  ),
  askedAt(
    'smallstep/certificates/issues/177',
    'What happens to a device that was off until its certificate had ended?',
    'homelab-certificates.md#when-it-does-not-work',
  ),
]
