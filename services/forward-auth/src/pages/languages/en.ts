/**
 * The texts of the pages in English. What is in braces is filled in. Every other language has the same
 * keys with the same braces.
 */
export const en = {
  brand: 'Gatehouse',
  retry: 'Try again',
  requestId: 'Request',
  details: 'Details:',
  contact: 'Need help?',
  signIn: {
    title: 'Sign in',
    text: 'Continue to {host}',
    choices: 'Sign in with',
    failing: 'Not responding at the moment',
  },
  signedIn: {
    title: 'You are signed in',
    back: 'Continue to {host}',
    apps: 'Your apps',
    noApps: 'There is no app here yet that this account may open.',
    profile: 'Show my profile',
    signOut: 'Sign out',
  },
  signOut: {
    title: 'Sign out?',
    text: 'All apps that use this sign-in will ask you to sign in again.',
    confirm: 'Sign out',
    stay: 'Stay signed in',
  },
  signedOut: {
    title: 'You are signed out',
    text: 'You can close this page.',
    notStored:
      'Your session was removed from this browser, but the server could not record that it has ended. If somebody has copied it, the copy may stay valid until {end}. Please tell the administrator of this site.',
    provider: 'Also sign out of {provider}',
    signIn: 'Sign in again',
  },
  refused: {
    title: 'No access with this account',
    text: 'You are signed in, but this account does not have access to this page. If it should, ask the administrator of this site.',
    other: 'Sign in as someone else',
  },
  providerDown: {
    title: '{provider} is not responding',
    text: 'Signing in there is not possible at the moment. There is nothing wrong with your account.',
    other: 'Sign in another way',
  },
  /** What the identity provider said about an error, in its own words. */
  providerSays: 'The identity provider says:',
  /** By code: what happened, and what to do next. */
  errors: {
    FWA_CALLBACK_FOREIGN: {
      title: 'Callback from another provider',
      happened: 'You came back from another identity provider than the one where you began.',
      next: 'Sign in again from the start. If this happens again, tell the administrator of this site.',
    },
    FWA_COOKIE_DUPLICATE: {
      title: 'Session cookie sent twice',
      happened: 'Another site has set a second session cookie, so that neither of them counts.',
      next: 'Delete the cookies of this site in your browser, then try again.',
    },
    FWA_FORBIDDEN: {
      title: 'Access denied for this account',
      happened: 'This account does not have access to this page.',
      next: 'Sign in with another account, or ask the administrator of this site for access.',
    },
    FWA_LOGIN_REFUSED: {
      title: 'Provider refused the sign-in',
      happened: 'The identity provider did not sign you in.',
      next: 'Try again, or sign in with another account.',
    },
    FWA_LOGIN_UNKNOWN: {
      title: 'Sign-in expired or started in another browser',
      happened: 'The sign-in took too long, or began in another browser.',
      next: 'Try again, and allow cookies for this site.',
    },
    FWA_ORIGIN_FOREIGN: {
      title: 'Request came from another origin',
      happened: 'Another site tried to sign you out. You are still signed in.',
      next: 'If you want to sign out, open the page for it at this site.',
    },
    FWA_PORTAL_UNKNOWN: {
      title: 'No such portal',
      happened: 'There is no sign-in page at this address.',
      next: 'Check the address, or open the app again.',
    },
    FWA_PROVIDER_UNKNOWN: {
      title: 'No such provider',
      happened: 'This sign-in page has no identity provider of this name.',
      next: 'Open the app again, and choose one of those that are listed.',
    },
    FWA_PROVIDER_UNREACHABLE: {
      title: 'Provider cannot be reached',
      happened: 'The identity provider is not responding.',
      next: 'Try again in a moment, or sign in another way.',
    },
    FWA_SESSION_TOO_LARGE: {
      title: 'Session too large',
      happened: 'The identity provider says more about you than a cookie can hold.',
      next: 'Tell the administrator of this site. Your account has to be in fewer groups.',
    },
    FWA_SIGN_IN_LOOP: {
      title: 'Redirect loop',
      happened: 'You are signed in, but the app does not get to know it.',
      next: 'Delete the cookies of this site and allow cookies. If that does not help, tell the administrator.',
    },
    FWA_SIGN_IN_POLICY: {
      title: 'Sign-in link names an unknown policy',
      happened: 'The link that led you here is no longer valid.',
      next: 'Open the app again: a new link leads to the sign-in page.',
    },
    FWA_SIGN_IN_RATE: {
      title: 'Too many sign-ins',
      happened: 'This account has signed in too often in a short time.',
      next: 'Wait a minute, then try again.',
    },
    FWA_STEP_UP_UNMET: {
      title: 'Sign-in does not meet the requirements',
      happened: 'This page demands another way to sign in, such as a second factor.',
      next: 'Try again, and use the method that you are asked for. If that does not help, tell the administrator.',
    },
    FWA_STORE_STALE: {
      title: 'Sessions cannot be checked',
      happened: 'This site cannot check at the moment who is signed in.',
      next: 'Try again in a few minutes.',
    },
    FWA_STORE_UNAVAILABLE: {
      title: 'Store unavailable',
      happened: 'This site cannot store anything at the moment.',
      next: 'Try again in a few minutes.',
    },
    NOT_FOUND: {
      title: 'Not found',
      happened: 'There is nothing at this address.',
      next: 'Check the address, or open the app again.',
    },
    /** A fault in the configuration of this site, of its proxy or at its provider. */
    SETUP: {
      title: 'This site is not set up correctly',
      happened: 'You did nothing wrong: something in the setup of this site has to be corrected.',
      next: 'Tell its administrator what is written below.',
    },
    INTERNAL: {
      title: 'Something went wrong',
      happened: 'There was an error at this site, which has been logged.',
      next: 'Try again. If it happens again, tell the administrator what is written below.',
    },
    REQUEST: {
      title: 'Request not understood',
      happened: 'This site could not make sense of what your browser sent.',
      next: 'Go back and try again, or open the app again.',
    },
  },
}

export type Texts = typeof en
