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
    noApps: 'This account does not have access to any apps here yet.',
    profile: 'Show my profile',
    signOut: 'Sign out',
  },
  sessions: {
    title: 'Your sessions',
    here: 'This browser',
    device: '{browser} on {system}',
    unknown: 'Unknown device',
    address: 'IP address',
    begun: 'Signed in',
    lastSeen: 'Last active',
    ends: 'Expires',
    hosts: 'Used at',
    end: 'End session',
    others: 'End all other sessions',
    everywhere: 'Sign out everywhere',
    more: 'Only the newest {count} sessions are shown.',
    all: 'Sessions of everybody',
    whose: 'Whole e-mail address or identifier of a person',
    search: 'Search',
    none: 'No sessions found.',
    endAll: 'End all sessions of this person',
  },
  consent: {
    title: 'Let this app act for you?',
    app: 'Requested by',
    selfRegistered: 'An app that registered itself. Nobody has confirmed who made it.',
    callsItself: 'Calls itself',
    answer: 'Access goes to',
    opens: 'The app on this device that opens {scheme} links',
    resource: 'Wants to use',
    scopes: 'What it may do',
    loopback:
      'Access goes to a program on this device, and any program on it could be asking. Allow this only ' +
      'if you have just started the app yourself.',
    allow: 'Allow',
    deny: 'Deny',
  },
  agents: {
    title: 'Connected agents',
    selfRegistered: 'Registered itself',
    resource: 'May use',
    scopes: 'Permissions',
    begun: 'Connected',
    lastCall: 'Last call',
    end: 'Disconnect',
    more: 'Only the newest {count} agents are shown.',
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
      'Your session was removed from this browser, but the server could not record that it has ended. If ' +
      'someone has a copy of it, the copy may stay valid until {end}. Please tell the administrator of ' +
      'this site.',
    provider: 'Also sign out of {provider}',
    signIn: 'Sign in again',
  },
  refused: {
    title: 'No access with this account',
    text: 'You are signed in, but this account does not have access to this page. If it should, ask the administrator of this site.',
    other: 'Sign in as someone else',
  },
  framed: {
    title: 'Sign in to see this',
    text: 'Signing in needs a window of its own. Then reload this page.',
  },
  unsent: {
    title: 'Nothing was sent yet',
    text: 'The app did not receive what you sent. You may have to sign in first.',
    reload:
      'Reload this page, and your browser sends it again. If you see this page once more, sign in first. ' +
      'Or go back: what you typed should still be there.',
  },
  providerDown: {
    title: '{provider} is not responding',
    text: 'You cannot sign in there at the moment. There is nothing wrong with your account.',
    other: 'Sign in another way',
  },
  /** Introduces what the identity provider said about an error, in its own words. */
  providerSays: 'The identity provider says:',
  /** By code: what happened, and what to do next. */
  errors: {
    FWA_CALLBACK_FOREIGN: {
      title: 'Callback from another provider',
      happened: 'You returned from a different identity provider than the one you started with.',
      next: 'Sign in again from the start. If this happens again, tell the administrator of this site.',
    },
    FWA_CLIENT_INVALID: {
      title: 'Client is not acceptable',
      happened:
        'The app that wants access describes itself in a way that this site does not accept.',
      next: 'Tell the developer of the app. The details are below.',
    },
    FWA_CLIENT_RATE: {
      title: 'Too many new clients',
      happened: 'This account has used too many new apps in a short time.',
      next: 'Wait a minute, then try again.',
    },
    FWA_CLIENT_UNREACHABLE: {
      title: 'Client metadata document cannot be read',
      happened: 'This site cannot read the description of the app that wants access.',
      next: 'Try again in a moment. If that does not help, tell the developer of the app.',
    },
    FWA_COOKIES_BLOCKED: {
      title: 'Browser does not keep cookies',
      happened: 'Your browser does not keep the cookies of this app.',
      next: 'Allow cookies for this site, or open the app in a tab of its own.',
    },
    FWA_COOKIE_DUPLICATE: {
      title: 'Session cookie sent twice',
      happened:
        'Another site has set a second session cookie. This site cannot tell which one is yours, so it accepts neither.',
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
    FWA_OAUTH_INVALID: {
      title: "This app's request is not valid",
      happened: 'The app that sent you here made a mistake. Nothing was shared with it.',
      next: 'Go back to the app and try again. If this happens again, send the details below to its developer.',
    },
    FWA_ORIGIN_FOREIGN: {
      title: 'Request came from another origin',
      happened: 'Another site tried to end a session. Nothing was changed.',
      next: 'To end a session, use the pages of this site.',
    },
    FWA_PORTAL_UNKNOWN: {
      title: 'No such portal',
      happened: 'There is no sign-in page at this address.',
      next: 'Check the address, or open the app again.',
    },
    FWA_PROVIDER_UNKNOWN: {
      title: 'No such provider',
      happened: 'This sign-in page has no identity provider with this name.',
      next: 'Open the app again and choose a provider from the list.',
    },
    FWA_PROVIDER_UNREACHABLE: {
      title: 'Provider cannot be reached',
      happened: 'The identity provider is not responding.',
      next: 'Try again in a moment, or sign in another way.',
    },
    FWA_SESSION_TOO_LARGE: {
      title: 'Session too large',
      happened: 'The identity provider sent more information about you than fits in a cookie.',
      next: 'Tell the administrator of this site that your account needs to be in fewer groups.',
    },
    FWA_SIGN_IN_LOOP: {
      title: 'Redirect loop',
      happened: 'You are signed in, but the app keeps sending you back to sign in.',
      next: 'Delete the cookies of this site, and check that your browser accepts cookies. If that does not help, tell the administrator.',
    },
    FWA_SIGN_IN_POLICY: {
      title: 'Sign-in link names an unknown policy',
      happened: 'The link that brought you here is no longer valid.',
      next: 'Open the app again to get a new link.',
    },
    FWA_SIGN_IN_RATE: {
      title: 'Too many sign-ins',
      happened: 'This account has signed in too often in a short time.',
      next: 'Wait a minute, then try again.',
    },
    FWA_STEP_UP_UNMET: {
      title: 'Sign-in does not meet the requirements',
      happened: 'This page requires another kind of sign-in, such as one with a second factor.',
      next: 'Try again with the method that you are asked for. If that does not help, tell the administrator.',
    },
    FWA_STORE_STALE: {
      title: 'Sessions cannot be checked',
      happened: 'This site cannot check who is signed in at the moment.',
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
      happened: 'You did nothing wrong. The configuration of this site has to be corrected.',
      next: 'Send the details below to its administrator.',
    },
    INTERNAL: {
      title: 'Something went wrong',
      happened: 'An error occurred on this site. It has been logged.',
      next: 'Try again. If it happens again, send the details below to the administrator.',
    },
    REQUEST: {
      title: 'Request not understood',
      happened: 'This site did not understand the request from your browser.',
      next: 'Go back and try again, or open the app again.',
    },
  },
}

export type Texts = typeof en
